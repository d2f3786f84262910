package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
)

// silentTicks is how many ticks of T/20 without a message count as the guard's end: T/4.
const silentTicks = 5

// silence ends the connection to a guard that sends nothing any more.
type silence struct {
	mu        sync.Mutex
	lease     time.Duration
	suspended bool // the guard announced that it would be silent

	message chan struct{} // has an element after a message of the guard
	changed chan struct{} // has an element after a change of the lease
}

func newSilence() *silence {
	return &silence{lease: wire.DefaultLease, message: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (s *silence) heard() {
	s.suspend(false)
	offer(s.message, struct{}{})
}

// suspend has silence count for nothing until the guard is heard again.
func (s *silence) suspend(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = yes
}

func (s *silence) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

func (s *silence) setLease(lease time.Duration) {
	s.mu.Lock()
	s.lease = lease
	s.mu.Unlock()
	offer(s.changed, struct{}{})
}

// watch ends the connection when the guard is silent for T/4. Silence is counted in ticks of T/20 and not in time, so
// that a freeze of this process does not count against the guard. It returns with the connection's end.
func (s *silence) watch(conn *wire.Conn) {
	tick := time.NewTicker(s.tick())
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-s.message:
			silent = 0
		case <-s.changed:
			silent = 0
			tick.Reset(s.tick())
		case <-tick.C:
			if silent++; s.isSuspended() {
				silent = 0
			}
			if silent >= silentTicks {
				conn.Shut(fmt.Errorf("the guard was silent for %d ticks", silent))
				return
			}
		case <-conn.Down():
			return
		}
	}
}

func (s *silence) tick() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.lease/20, time.Millisecond)
}
