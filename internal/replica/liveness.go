package replica

import (
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/view"
)

// loopTimes notes when each loop of a replica began its last iteration.
type loopTimes struct {
	silence time.Duration // after which a loop counts as stuck

	mu   sync.Mutex
	last map[string]time.Time
}

// The loops. Publishing asks the elector's loop for ages every second, so it is stuck when that one is.
const (
	loopReconcile = "reconciliation"
	loopPublish   = "publishing"
)

func (t *loopTimes) note(loop string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	t.last[loop] = time.Now()
}

// check says which loop is stuck.
func (t *loopTimes) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, loop := range []string{loopReconcile, loopPublish} {
		if last, began := t.last[loop]; began && time.Since(last) > t.silence {
			return fmt.Errorf("the loop of %s has not turned for %v; it turns every %v at most",
				loop, time.Since(last).Round(time.Second), loopPeriod)
		}
	}
	return nil
}

const (
	loopPeriod   = 5 * time.Second // the longest of a loop, without the time that an iteration takes
	leastSilence = 6 * loopPeriod  // of a loop that is stuck
)

// heartbeats remembers how the last heartbeat went.
type heartbeats struct {
	mu   sync.Mutex
	last view.Heartbeat
}

func (h *heartbeats) note(took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = view.Heartbeat{Took: took, Err: err}
}

func (h *heartbeats) get() view.Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}
