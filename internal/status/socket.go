package status

import (
	"context"
	"net"
	"syscall"
)

type connKey struct{}

// withConn notes the connection of requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// limitKernel bounds what the kernel keeps of a stream for a reader that does not read. It counts as this container's
// memory, too.
func limitKernel(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			limitUnsent(raw)
		}
	}
}
