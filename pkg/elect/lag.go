package elect

import "time"

// lag is by how many milliseconds the clocks of those who write are behind the own, at most, of late. Revisions of locks follow the clock of
// who writes them, so what such a one has just written looks so much older than it is. Clocks of one store differ for a
// moment after a failover to a machine with another clock, and where each client has its own, as with SQLite.
type lag struct{ now, before int64 }

func (l lag) most() int64 { return max(l.now, l.before) }

// turn lets what was not seen again be forgotten the time after.
func (l *lag) turn() { l.now, l.before = 0, l.now }

// notice takes how far behind a beat's clock was when the beat was first seen. Part of that is the age of the beat, which costs
// nothing but a few locks read twice. With a lag that no age explains, what was read so far may have missed changes.
func (m *mirror) notice(behind int64, lease time.Duration) {
	if behind <= overlap/2 { // what was read twice so far was enough
		return
	}
	if behind > m.lag.most()+max(overlap, lease.Milliseconds()) {
		m.wantFull = true
	}
	m.lag.now = max(m.lag.now, behind)
}
