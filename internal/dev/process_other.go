//go:build !linux

package dev

import "syscall"

// ownGroup keeps a replica from the terminal's signals. There is no death signal here.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// firstChildren finds nothing: there is no /proc.
func firstChildren() map[int]int { return nil }
