package elect

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Predecessor is a session of a process before this one, of which it is certain that nothing is left: a container that is started
// again knows it of the processes that ran in it before, since all of them ended with its first one. A name proves nothing.
type Predecessor struct {
	Session string
	// Granted are the keys that far sides may still work on, and for how long, counted from the moment others hear that the session is
	// dead.
	Granted map[Key]time.Duration
}

// shownFor is how many looks of the others this session has been there for before those of predecessors end. Whoever shares out the keys
// of the dead shall see who has come back for them: else they go to everybody, and move again later.
const shownFor = 2

// markable are the predecessors whose grants a document can hold. The others are left to the lease, like anybody.
func (e *Elector) markable() map[string]Predecessor {
	all := make(map[string]Predecessor, len(e.cfg.Predecessors))
	for _, p := range e.cfg.Predecessors {
		if err := (Session{Remote: grantsOf(p)}).Validate(); err != nil {
			e.log.Info("Too many far sides may work on keys of a predecessor: it is left to its lease", "session", p.Session)
			continue
		}
		all[p.Session] = p
	}
	return all
}

// endPredecessors marks the sessions of predecessors dead, once the others know of this one.
func (e *Elector) endPredecessors(now protocol.Instant) {
	l := &e.loop
	if len(l.predecessors) == 0 || !e.isShown(now) {
		return
	}
	for id := range l.predecessors {
		q := e.wantPeer(id)
		if q.m.Dead() || q.m.Gone { // a missing session owns nothing for longer than any other that is missing
			e.predecessorOver(id)
			continue
		}
		if now.HolderElapsed(q.after) >= 0 {
			e.stepPeer(id, q, protocol.PeerEvent{Kind: protocol.PeerEnded}, now)
		}
	}
}

// isShown says whether the others have had the time to see this session, and what its instance says of itself.
func (e *Elector) isShown(now protocol.Instant) bool {
	l := &e.loop
	if !l.session.wasValid || l.session.member.Rev == 0 || !l.mirror.loaded {
		l.shown = protocol.Instant{}
		return false
	}
	if l.shown == (protocol.Instant{}) {
		l.shown = now
	}
	return now.Reached(l.shown, shownFor*e.p.Observe)
}

func (e *Elector) predecessorOver(id string) {
	delete(e.loop.predecessors, id)
	if e.cfg.Guard != nil {
		e.cfg.Guard.SessionOver(id)
	}
}

// grantsOf are what a document that marks a predecessor dead says of its keys, in ms.
func grantsOf(p Predecessor) map[Key]int64 {
	var granted map[Key]int64
	for key, left := range p.Granted {
		if granted == nil {
			granted = map[Key]int64{}
		}
		granted[key] = left.Milliseconds()
	}
	return granted
}
