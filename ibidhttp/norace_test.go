//go:build !race

package ibidhttp_test

const raceEnabled = false
