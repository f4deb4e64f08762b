//go:build !race

package ibid_test

// raceDetector is true where the race detector allocates, too, and empties
// pools at random.
const raceDetector = false
