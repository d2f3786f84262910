//go:build unix && !linux

package testbroker

import "syscall"

// procAttr puts a child into a process group of its own, which Kill and Freeze reach.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
