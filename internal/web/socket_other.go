//go:build !linux

package web

import "syscall"

// limitUnsent does nothing: what waits in the kernel is limited by its own defaults.
func limitUnsent(syscall.RawConn) {}
