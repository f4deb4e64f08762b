package servers

import "syscall"

// attributes lets a server die with the test that started it.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
