package liveness

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// judging is when sessions are to be judged, so that not all of them are looked at in every tick.
type judging struct {
	alive int              // sessions not known to be dead
	soon  bool             // something has happened that the last judging did not know of
	next  protocol.Instant // no session can be judged dead before, unless soon
}

// count adds by for a session that lives.
func (j *judging) count(q *peer, by int) {
	if q != nil && q.lives() {
		j.alive += by
	}
}

// isDue says whether any session can be judged dead now.
func (j *judging) isDue(now protocol.Instant) bool { return j.soon || now.HolderElapsed(j.next) >= 0 }

// begin begins a judging of all. A session that is met after it cannot be judged for T.
func (j *judging) begin(p protocol.Params, now protocol.Instant) {
	j.soon, j.next = false, now.Add(p.T)
}

// expect takes note of when the session can be judged next. Anyone who answers, or looks at it, makes that soon.
func (j *judging) expect(p protocol.Params, q *peer, now protocol.Instant) {
	if !q.lives() || q.m.Writing || q.m.Reading {
		return
	}
	left := -now.HolderElapsed(q.notTill)
	if !q.m.Repeat {
		left = max(left, max(p.T, q.m.Lease)-now.HolderElapsed(q.m.Seen))
	}
	j.sooner(now, left)
}

func (j *judging) sooner(now protocol.Instant, left time.Duration) {
	if -now.HolderElapsed(j.next) > left {
		j.next = now.Add(left)
	}
}
