package web

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how much of an answer waits in the kernel for a reader that does not read, in bytes. Without it that grows
// to megabytes for each. What is on its way to one that reads is not limited by it.
const unsent = 32 << 10

// limitUnsent is best effort: a kernel that does not know the option keeps more.
func limitUnsent(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	})
}
