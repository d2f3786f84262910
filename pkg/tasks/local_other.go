//go:build !linux

package tasks

import "syscall"

// groupOfItsOwn makes a child a process group of its own. There is no death signal here.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// onlyZombies cannot be told without /proc.
func onlyZombies(int) bool { return false }
