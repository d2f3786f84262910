//go:build linux

package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// A guard that is silent for T/4 counts as gone, and so a machine that stands still ends replicas. Five of its pings
// fit into that time. Where this process could not even sleep for as long as one of them, it cannot be said that a
// replica ended without a reason.
const (
	stall      = Lease / 20
	stallCause = Lease // before an end
	stallEvery = 20 * time.Millisecond
)

// stalls measures how late this process wakes up.
type stalls struct {
	mu    sync.Mutex
	last  history.Instant // when the last one ended
	worst time.Duration
}

func (s *stalls) watch(ctx context.Context) {
	for before := history.Now(); ctx.Err() == nil; {
		wait(ctx, stallEvery)
		now := history.Now()
		if late := now.Sub(before) - stallEvery; late >= stall {
			s.mu.Lock()
			s.last, s.worst = now, max(s.worst, late)
			s.mu.Unlock()
		}
		before = now
	}
}

// recent says whether the machine has stood still just now.
func (s *stalls) recent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != 0 && history.Now().Sub(s.last) < stallCause
}

func (s *stalls) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worst
}
