package engine

import (
	"maps"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// RefreshPlan says what is to be read: the counters, then what they say has changed.
type RefreshPlan struct {
	number  uint64 // counts refreshes from 1
	begun   protocol.Instant
	wanted  readWant
	tracked int
	counts  map[string]int64
	groups  map[string]trackedGroup
	skew    int64
	counter bool // the store's floor is no clock
}

func (RefreshPlan) listRequest() {}

// WantsMembers reports whether the members are to be read, now that the counters stand at counts.
func (p RefreshPlan) WantsMembers(counts map[string]int64) bool {
	return p.wanted.members || p.wanted.full || p.moved(counterMembers, counts)
}

// WantsOverrides reports whether the overrides are to be read, likewise.
func (p RefreshPlan) WantsOverrides(counts map[string]int64) bool {
	return p.wanted.overrides || p.wanted.full || p.moved(counterOverrides, counts)
}

// moved reports whether a counter has moved since it was last read.
func (p RefreshPlan) moved(counter string, counts map[string]int64) bool {
	return p.counts[counter] != counts[counter]
}

// From is the revision from which the locks of a group are to be read. ok is false when they need not be. Of the
// reading only what the store said with the counters is needed.
func (p RefreshPlan) From(name string, r Reading) (rev int64, ok bool) {
	g := p.groups[name]
	switch {
	case p.full(name):
		return 0, true
	case !g.touched && g.count == r.Counts[name]:
		return 0, false
	case p.counter || r.Floor != r.Clock:
		return min(g.maxRev, g.floor), true
	}
	// Revisions may be ahead of the store's clock, where it was set back: then what was written since is below them.
	return min(g.maxRev, g.read, r.Clock) - readOverlap - p.skew, true
}

func (p RefreshPlan) full(name string) bool { return p.wanted.full || !p.groups[name].loaded }

// Groups lists the groups that were tracked when the plan was made, in no order.
func (p RefreshPlan) Groups() []string {
	names := make([]string, 0, len(p.groups))
	for name := range p.groups {
		names = append(names, name)
	}
	return names
}

const (
	pollGap = 250 * time.Millisecond // between readings of the counters where the store cannot watch
	minGap  = 50 * time.Millisecond  // between two refreshes
)

// refresher is what is to be read, and when.
type refresher struct {
	lease    time.Duration
	counts   map[string]int64 // of every counter, as last read
	want     readWant
	schedule refreshSchedule
	skew     clockSkew
	floors   floors
}

// readWant is what the next refresh is to read.
type readWant struct{ counters, full, members, overrides bool }

func (w readWant) any() bool { return w.counters || w.full || w.members || w.overrides }

// refreshSchedule is when to refresh.
type refreshSchedule struct {
	busy     bool
	watching bool             // the store sends notifications
	last     protocol.Instant // start of the last refresh
	took     time.Duration
	polled   protocol.Instant
}

// newRefresher wants to read everything.
func newRefresher(lease time.Duration, now protocol.Instant) refresher {
	return refresher{
		lease: lease, counts: map[string]int64{}, schedule: refreshSchedule{polled: now.Add(-lease)},
		want: readWant{counters: true, members: true, overrides: true},
	}
}

// Look makes the next refresh read what a notification, or the lack of them, points at.
func (r *refresher) Look() { r.want.counters = true }

// LookAtOverrides makes the next refresh read the overrides.
func (r *refresher) LookAtOverrides() { r.want.overrides = true }

// LookAtMembers makes the next refresh read the members.
func (r *refresher) LookAtMembers() { r.want.members = true }

// Counted says whether a counter stands where it was last read.
func (r *refresher) Counted(counter string, count int64) bool { return r.counts[counter] == count }

// note takes where a counter stands now, and says whether it has moved.
func (r *refresher) note(counter string, count int64) bool {
	if r.Counted(counter, count) {
		return false
	}
	r.counts[counter] = count
	return true
}

// Skewed takes how many ms the clock of another writer was behind this process's when a heartbeat of it was first
// seen.
func (r *refresher) Skewed(behind int64) {
	if r.skew.notice(behind, r.lease) {
		r.want.full = true
	}
}

// Turn lets a clock skew that was not seen again be forgotten the time after. It is called every T.
func (r *refresher) Turn() { r.skew.turn() }

// Wait is how long the loop may sleep before Plan has something to read.
func (r *refresher) Wait(now protocol.Instant) time.Duration {
	switch s := r.schedule; {
	case s.busy:
		return never
	case r.want.any():
		return r.gap() - now.HolderElapsed(s.last)
	case !s.watching:
		return pollGap - now.HolderElapsed(s.polled)
	}
	return never
}

// gap is the least time between two refreshes: short when reading is cheap. It is never longer than T/4. What one of
// them took on a bad day, or while the process was frozen, says nothing about the next.
func (r *refresher) gap() time.Duration { return min(max(minGap, 3*r.schedule.took), r.lease/4) }

// begin begins a refresh and says what it is to read; ok is false when it is not time, or one is under way.
func (r *refresher) begin(now protocol.Instant) (wanted readWant, ok bool) {
	s := &r.schedule
	poll := pollGap
	if s.watching {
		poll = r.lease // notifications may be lost
	}
	if now.Reached(s.polled, poll) {
		s.polled, r.want.counters = now, true
	}
	if s.busy || !r.want.any() || !now.Reached(s.last, r.gap()) {
		return readWant{}, false
	}
	wanted, r.want = r.want, readWant{}
	s.busy, s.last = true, now
	return wanted, true
}

// failed ends a refresh that read nothing: all of it is wanted again.
func (r *refresher) failed(wanted readWant, took time.Duration) {
	r.schedule.busy, r.schedule.took = false, took
	r.want = readWant{
		counters: true, full: r.want.full || wanted.full,
		members: r.want.members || wanted.members, overrides: r.want.overrides || wanted.overrides,
	}
}

// read ends a refresh that found the counters at counts. It returns those that have moved.
func (r *refresher) read(counts map[string]int64, took time.Duration) (moved []string) {
	r.schedule.busy, r.schedule.took = false, took
	for name, count := range counts {
		if r.counts[name] != count {
			moved = append(moved, name)
		}
	}
	r.counts = maps.Clone(counts) // the caller's is part of what it has read
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	return moved
}

// clockSkew is by how many ms the clocks of other writers are behind the own, at most, of late. Revisions of locks
// follow the clock of their writer. So what such a writer has just written looks so much older than it is. Clocks of
// one store differ for a moment after a failover to a machine with another clock. They also differ where each client
// has its own, as with SQLite.
type clockSkew struct{ now, before int64 }

func (s clockSkew) most() int64 { return max(s.now, s.before) }

// turn lets what was not seen again be forgotten the time after.
func (s *clockSkew) turn() { s.now, s.before = 0, s.now }

// notice takes how far behind a heartbeat's clock was when the heartbeat was first seen. Part of that is the
// heartbeat's age, which costs nothing but a few locks read twice. It reports whether no age explains it: then what
// was read so far may have missed changes.
func (s *clockSkew) notice(behind int64, lease time.Duration) bool {
	if behind <= readOverlap/2 { // what was read twice so far was enough
		return false
	}
	unexplained := behind > s.most()+max(readOverlap, lease.Milliseconds())
	s.now = max(s.now, behind)
	return unexplained
}

// readOverlap is how many ms below the highest revision known changes are read again.
const readOverlap = 5_000

// floors are what readings have shown of late of a store whose floor is a counter. Such a counter is no time: it stands
// still, and it jumps. So how far back to read again is a floor of some time ago. A writer knows one that is newer than
// that, and writes no revision below it.
type floors struct {
	counter bool // the store's floor is no clock
	seen    []floorAt
}

// floorAt is a floor that the store had reached by some time.
type floorAt struct {
	at    protocol.Instant
	floor int64
}

// note takes what a reading shows that arrived at some time.
func (f *floors) note(clock, floor int64, at protocol.Instant) {
	f.counter = f.counter || floor != clock
	f.seen = append(f.seen, floorAt{at, floor})
}

// before is the newest floor that had been reached so long before a time; 0: none is known. Times that are asked for
// only grow, so what is older is forgotten.
func (f *floors) before(at protocol.Instant, age time.Duration) int64 {
	old := 0
	for old < len(f.seen) && at.KillerElapsed(f.seen[old].at) >= age {
		old++
	}
	if old == 0 {
		return 0
	}
	f.seen = append(f.seen[:0], f.seen[old-1:]...)
	return f.seen[0].floor
}

// trackedGroup is one tracked group.
type trackedGroup struct {
	since   int // the call of Track that added it
	maxRev  int64
	read    int64 // the store's clock at the last reading of its locks
	floor   int64 // its floor some time before that
	count   int64 // as of then
	loaded  bool
	touched bool // something says that what is known is not the newest
	lowered bool // read and floor were lowered, and the next reading is to see it
}
