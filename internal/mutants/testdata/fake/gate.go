// Package fake stands in for the repository in the tests of mutants.
package fake

// Open says whether n may pass.
func Open(n int) bool {
	if n < 0 {
		return false
	}
	return n != 13
}
