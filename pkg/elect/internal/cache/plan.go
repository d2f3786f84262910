package cache

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Plan says what is to be read: the counters, then what they say has changed.
type Plan struct {
	Full, Members, Overrides bool

	number  uint64 // counts refreshes from 1
	begun   protocol.Instant
	wanted  want
	tracked int
	counts  map[string]int64
	groups  map[string]group
	skew    int64
	counter bool // the store's floor is no clock
}

// Changed says whether a counter has moved since it was last read.
func (p Plan) Changed(counter string, count int64) bool { return p.counts[counter] != count }

// From is the revision from which the locks of a group are to be read. ok is false when they need not be. Of the
// reading only what the store said with the counters is needed.
func (p Plan) From(name string, r Reading) (rev int64, ok bool) {
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
	return min(g.maxRev, g.read, r.Clock) - overlap - p.skew, true
}

func (p Plan) full(name string) bool { return p.Full || !p.groups[name].loaded }

// Groups lists the groups that were tracked when the plan was made, in no order.
func (p Plan) Groups() []string {
	names := make([]string, 0, len(p.groups))
	for name := range p.groups {
		names = append(names, name)
	}
	return names
}

// Reading is what a refresh found.
type Reading struct {
	Counts map[string]int64
	Locks  map[string][]*record.Lock // by group: of those that were read
	Clock  int64                     // the store's, Unix ms, when the counters were read
	Floor  int64                     // see [store.Reply]: the clock, or a counter of the store

	Members   map[string]record.Member // nil: not read
	Broken    []string                 // sessions whose member is malformed: what was known of it stays
	Overrides []record.Override
	Overrode  bool // overrides were read
}
