package cache

import "time"

// skew is by how many milliseconds the clocks of other writers are behind the own, at most, of late. Revisions of locks
// follow the clock of their writer, so what such a writer has just written looks so much older than it is. Clocks of
// one store differ for a moment after a failover to a machine with another clock. They also differ where each client
// has its own, as with SQLite.
type skew struct{ now, before int64 }

func (s skew) most() int64 { return max(s.now, s.before) }

// turn lets what was not seen again be forgotten the time after.
func (s *skew) turn() { s.now, s.before = 0, s.now }

// notice takes how far behind a heartbeat's clock was when the heartbeat was first seen. Part of that is the
// heartbeat's age, which costs nothing but a few locks read twice. It reports whether no age explains it: then what
// was read so far may have missed changes.
func (s *skew) notice(behind int64, lease time.Duration) bool {
	if behind <= overlap/2 { // what was read twice so far was enough
		return false
	}
	unexplained := behind > s.most()+max(overlap, lease.Milliseconds())
	s.now = max(s.now, behind)
	return unexplained
}

// overlap is how many ms below the highest revision known changes are read again.
const overlap = 5_000
