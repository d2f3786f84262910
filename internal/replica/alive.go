package replica

import (
	"fmt"
	"sync"
	"time"
)

// turns notes when each loop of a replica last came round. Its zero value has seen none.
type turns struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// The loops. Publishing asks the elector's loop for ages every second, so it stands still when that one does.
const (
	loopReconcile = "reconciliation"
	loopPublish   = "publishing"
)

func (t *turns) note(loop string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	t.last[loop] = time.Now()
}

// check says which loop has not come round within the limit.
func (t *turns) check(limit time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, loop := range []string{loopReconcile, loopPublish} {
		if last, began := t.last[loop]; began && time.Since(last) > limit {
			return fmt.Errorf("the loop of %s has not turned for %v; it turns every %v at most",
				loop, time.Since(last).Round(time.Second), loopPeriod)
		}
	}
	return nil
}

const (
	loopPeriod   = 5 * time.Second // the longest of a loop, without the time that a turn takes
	leastSilence = 6 * loopPeriod  // of a loop that stands still
)

// Live says which loop of the replica stands still: it has not turned for the length of the lease, and for 30 s. It
// asks neither the loops nor the store, which may be away. Nil before there is a store, and once the session has ended.
func (r *Replica) Live() error {
	n := r.node.Load()
	if n == nil {
		return nil
	}
	select {
	case <-n.cluster.Done():
		return nil
	default:
		return r.turns.check(r.silence)
	}
}
