//go:build !linux

package tour

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
