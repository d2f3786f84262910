package testbroker

import "syscall"

// procAttr puts a child into a process group of its own, so that Ctrl-C reaches only the test. It has the kernel kill
// it when the thread that started it ends. That thread stays until the broker is closed.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
