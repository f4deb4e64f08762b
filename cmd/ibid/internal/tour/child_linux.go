package tour

import "syscall"

// dieWithParent ends a server with the tour, however the tour ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
