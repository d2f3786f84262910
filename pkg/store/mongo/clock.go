package mongo

import (
	"sync"
	"time"
)

// A clock is the server's clock as of the newest sample, carried on by the local monotonic clock. It is carried on so
// slowly that it is never ahead: the rates of two clocks differ by a ratio of at most 1.1.
type clock struct {
	mu     sync.Mutex
	server int64     // the newest sample, Unix ms
	at     time.Time // when the reply came: the server took it before
}

// sample takes in what the server's clock showed in a reply.
func (c *clock) sample(server int64, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.at = server, received
}

// now is the server's clock in Unix ms at the local time t.
func (c *clock) now(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + t.Sub(c.at).Milliseconds()*10/11
}
