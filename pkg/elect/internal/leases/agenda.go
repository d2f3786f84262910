package leases

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// agenda is what a tick looks at, so that keys that rest cost nothing.
type agenda struct {
	pending map[*holding]struct{} // see holding.waits
	reports delayed               // statuses to be noted
	lost    delayed               // runs that were informed that their key is another's
}

// reportDelay is how long a status waits for a newer one. A run that starts and stops at once is noted once, and
// the writes of a hand-over are not held up by statuses.
const reportDelay = 200 * time.Millisecond

func newAgenda(p protocol.Params) agenda {
	return agenda{pending: map[*holding]struct{}{}, reports: delayed{by: reportDelay}, lost: delayed{by: p.T / 4}}
}

// changed takes note of what an event made of a key.
func (a *agenda) changed(h *holding) {
	if h.waits() {
		a.pending[h] = struct{}{}
	} else {
		delete(a.pending, h)
	}
}

// stuck are the runs that go on although their key is another's, each once. A key that was taken away alone, by an
// edited lock, meets no deadline of the session. T/4 is enough for any command to be killed.
func (a *agenda) stuck(now protocol.Instant) []record.Key {
	var keys []record.Key
	for _, l := range a.lost.due(now) {
		if l.h.m.Lost {
			keys = append(keys, l.h.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// ReportDelay is how long the loop may sleep while statuses wait; ok is false when none does.
func (a *agenda) ReportDelay(now protocol.Instant) (time.Duration, bool) { return a.reports.wait(now) }
