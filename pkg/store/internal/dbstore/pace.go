package dbstore

import (
	"sync"
	"time"
)

// Pace lets something happen once in a while, however often it is asked for: a connection is given up that may have
// inherited a wrong setting or a user who is gone. The zero value lets everything happen. Its methods may be called
// concurrently.
type Pace struct {
	Every time.Duration

	mu   sync.Mutex
	next time.Time
}

// Let says whether it may happen now, and that it does.
func (p *Pace) Let(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(p.Every)
	return true
}
