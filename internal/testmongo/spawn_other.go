//go:build unix && !linux

package testmongo

import "syscall"

// procAttr leaves a child in the test's process group: without a parent-death signal, that is what makes Ctrl-C reach
// it.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}
