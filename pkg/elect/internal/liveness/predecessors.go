package liveness

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Predecessor is a session of a process before this one, of which it is certain that nothing is left.
type Predecessor struct {
	Session string
	Remote  map[record.Key]int64 // remote leases of its keys, and the ms that are left of each once the session is dead
}

// predecessors are those that are not known to be dead yet.
type predecessors struct {
	left  map[string]Predecessor
	shown protocol.Instant // since when the own session can be seen by others
}

func newPredecessors(all []Predecessor) predecessors {
	ps := predecessors{left: make(map[string]Predecessor, len(all))}
	for _, before := range all {
		ps.left[before.Session] = before
	}
	return ps
}

// shownFor is how many looks of the others the own session has been there for before those of predecessors end.
// Those who share out the keys of dead sessions shall see who has come back for them. Else the keys go to all, and move
// again later.
const shownFor = 2

// due says whether predecessors are to end. There must be some, and the others must have had the time to see the own
// session, and what its instance says of itself. announced says that they can read it.
func (ps *predecessors) due(announced bool, p protocol.Params, now protocol.Instant) bool {
	switch {
	case len(ps.left) == 0:
		return false
	case !announced:
		ps.shown = protocol.Instant{}
		return false
	case ps.shown == protocol.Instant{}:
		ps.shown = now
	}
	return now.Reached(ps.shown, shownFor*p.Observe)
}
