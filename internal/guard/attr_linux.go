package guard

import "syscall"

// childAttr makes a command a process group of its own that dies with the thread that starts it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// selfPath is this very program, also when its file was replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }
