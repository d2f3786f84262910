package liveness

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Tick looks at the other sessions when it is time, and marks those dead whose heartbeats have stood still. own is
// this process's session; longest is the largest T of all members known.
func (ps *Peers) Tick(own protocol.Session, longest time.Duration, m protocol.Moment) {
	if ps.look.due(ps.judging.alive, ps.p, m.Now) {
		ps.out.Look = &Look{All: ps.look.all, From: ps.ids.Session, Count: neighbours}
	}
	if ps.Reach.StoreUnreachable(own, m.Now) || !ps.judging.isDue(m.Now) {
		return // while the store is unreachable ages say nothing: they start again with the next success
	}
	patience := ps.All.longestLease(max(longest, ps.p.T))
	ps.judging.begin(ps.p, m.Now)
	for id, q := range ps.All {
		if m.Now.HolderElapsed(q.notTill) >= 0 && q.watched(ps.p, m.Now) {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerTick, Patience: patience}, m.Now, m)
		}
		ps.judging.expect(ps.p, q, m.Now)
	}
}

// Wait is how long the loop may sleep.
func (ps *Peers) Wait(own protocol.Session, now protocol.Instant) time.Duration {
	wait := time.Duration(math.MaxInt64)
	if !ps.look.busy {
		wait = ps.look.gap(ps.p) - now.HolderElapsed(ps.look.last)
	}
	if left := -now.HolderElapsed(ps.judging.next); left > 0 && !ps.Reach.StoreUnreachable(own, now) {
		wait = min(wait, left)
	}
	return wait
}

// EndPredecessors marks the sessions of predecessors dead, once the others know of the own one. announced says that
// they can read it.
func (ps *Peers) EndPredecessors(announced bool, m protocol.Moment) {
	if !ps.predecessors.due(announced, ps.p, m.Now) {
		return
	}
	for id := range ps.predecessors.left {
		q := ps.want(id, m)
		if q.m.Dead() || q.m.Gone { // a missing session owns nothing for longer than any other that is missing
			delete(ps.predecessors.left, id)
			ps.out.Over = append(ps.out.Over, id)
			continue
		}
		if m.Now.HolderElapsed(q.notTill) >= 0 {
			ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerEnded}, m.Now, m)
		}
	}
}
