//go:build !linux

package sqlite

import "os"

// syncData is what SQLite waits for when it commits.
func syncData(f *os.File) error { return f.Sync() }
