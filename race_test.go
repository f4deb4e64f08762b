//go:build race

package ibid_test

const raceDetector = true
