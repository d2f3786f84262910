package mongostore

import (
	"sync"
	"time"
)

// A clock estimates the server's clock from samples, extrapolated by the local monotonic clock.
type clock struct {
	mu     sync.Mutex
	server int64     // the newest sample, Unix ms
	at     time.Time // when the server took it, as near as we know: half-way between request and reply
}

// sample takes in what the server's clock showed in the reply to a request.
func (c *clock) sample(server int64, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.at = server, sent.Add(received.Sub(sent)/2)
}

// now is the server's clock in Unix ms at the local time t.
func (c *clock) now(t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + t.Sub(c.at).Milliseconds()
}
