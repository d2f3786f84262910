package guard

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// leastGap is the least time between two surveys: together they must not fill a processor.
const leastGap = 2 * time.Millisecond

// lookout is when to look next, and how.
type lookout struct {
	stale   bool             // since the last sight something was reaped, or a control group is empty
	looking bool             // a survey is under way
	planned bool             // next is set
	next    protocol.Instant // of a survey: not before
	gap     time.Duration
}

// soon has the next survey come at a moment, if it would come later.
func (w *lookout) soon(at protocol.Instant) {
	if !w.planned || holderLeft(at, w.next) < 0 && w.gap > leastGap {
		w.planned, w.next = true, at
	}
	w.gap = leastGap
}
