package sqlite

import (
	"os"
	"syscall"
)

// syncData is what SQLite waits for when it commits.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
