package quorum

import "slices"

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
// revision that any server was told.
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
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) > 0 {
		c.last = max(c.last, sorted[(len(sorted)-1)/2])
	}
	return c.last
}
