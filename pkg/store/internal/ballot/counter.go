package ballot

import (
	"slices"
)

// Count is a counter as one server keeps it.
type Count struct{ Count, Rev int64 }

// Counter is one counter over all servers. Each counts for itself, and an increment is acknowledged when a majority has
// counted it. As a register, all replicas would compete for it. The zero Counter has seen nothing.
type Counter struct{ largest [MaxServers]Count }

// Shown takes what a server shows. What was shown before is remembered: answers of different majorities never make the
// sum fall.
func (c *Counter) Shown(server int, n Count) {
	seen := &c.largest[server]
	seen.Count, seen.Rev = max(seen.Count, n.Count), max(seen.Rev, n.Rev)
}

// Sum is the counter. Any increment that was acknowledged before a majority was asked has raised it. Rev is the largest
// revision that any server was given.
func (c *Counter) Sum() Count {
	var sum Count
	for _, n := range c.largest {
		sum.Count, sum.Rev = sum.Count+n.Count, max(sum.Rev, n.Rev)
	}
	return sum
}

// Clock is the time of several servers, in Unix ms: the lower median of those who answered, and never less than before.
// So a minority with wrong clocks cannot set it. The zero Clock has seen nothing.
type Clock struct{ last int64 }

// Now takes the times of servers in any order, at least one, and says what time it is.
func (c *Clock) Now(times ...int64) int64 {
	c.last = max(c.last, Median(times...))
	return c.last
}

// Median is the lower median of times in any order, 0 of none.
func Median(times ...int64) int64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}

// Removal decides about a tombstone: when its records may be deleted on the servers, and from when on.
//
// The order is: look at all servers; where [Removal.Floor] allows it, raise the floor of each server to it, durably;
// then delete each record that is still as it was shown, by compare-and-set. A tombstone is looked at only when it has
// stood for an hour, and a write that was not answered for that long is never repeated.
//
// With a majority alone, the record of the last server could come back to life. Without the floor, an acceptance that
// is late would put an old value where a new one was created since.
type Removal[V any] struct {
	ballot Ballot
	floor  int64
	shown  servers
	differ bool
	of     int8
}

// Remove begins a removal among so many servers.
func Remove[V any](of int) Removal[V] { return Removal[V]{of: int8(of)} } //nolint:gosec // at most MaxServers

// Shown takes a server's record, and whether it is a tombstone.
func (r *Removal[V]) Shown(server int, a Acceptor[V], tombstone bool) {
	if r.shown == 0 {
		r.ballot = a.Accepted.Ballot
	}
	r.differ = r.differ || !tombstone || a.Accepted.Ballot != r.ballot
	r.floor = max(r.floor, a.RefusedBelow())
	r.shown = r.shown.with(server)
}

// Floor is the counter below which servers refuse where they have no record. False: not all servers have shown one
// tombstone under one ballot. It covers promised ballots too: an acceptance under one of them may still be on its way.
func (r *Removal[V]) Floor() (int64, bool) {
	return r.floor, !r.differ && r.shown.len() == int(r.of)
}
