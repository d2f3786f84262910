package leases

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// delayed are keys that something is to be done about, each so long after it came in: what came first is due first.
type delayed struct {
	by    time.Duration
	queue []since
}

// since is a key, and when it came in.
type since struct {
	h  *holding
	at protocol.Instant
}

func (d *delayed) add(h *holding, now protocol.Instant) { d.queue = append(d.queue, since{h, now}) }

// due takes out what has waited long enough.
func (d *delayed) due(now protocol.Instant) []since {
	n := 0
	for n < len(d.queue) && now.Reached(d.queue[n].at, d.by) {
		n++
	}
	due := d.queue[:n]
	if d.queue = d.queue[n:]; len(d.queue) == 0 {
		d.queue = nil // a burst must not hold its memory for ever
	}
	return due
}

// wait is how long the first of them still waits; ok is false when there is none.
func (d *delayed) wait(now protocol.Instant) (left time.Duration, ok bool) {
	if len(d.queue) == 0 {
		return 0, false
	}
	return d.by - now.HolderElapsed(d.queue[0].at), true
}
