package node

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (n *Node) Tick() {
	m := n.Moment()
	if n.Session.Machine().Doubt && !n.Leases.Doubtful() && !n.Mutexes.Doubtful() {
		n.Session.Sure(m)
	}
	n.Session.Tick(m)
	n.Settle()
	n.Session.Idle(n.runs.Count(), n.Leases.Len()+n.Mutexes.Len(), m)
	n.Settle()
	m = n.Moment()
	n.Peers.EndPredecessors(n.Session.Announced() && n.cache.Loaded(), m)
	n.Peers.Tick(n.Session.Machine(), n.cache.LongestLease(), m)
	n.Settle()
	n.Leases.Tick(m)
	n.Mutexes.Tick(m)
	if n.Session.ClosingFor(n.p.Hard, m.Now) { // as long as after a lost lease
		n.Mutexes.End(m)
	}
	n.Session.Announce(m)
	n.Settle()
	n.audit.tick(m)
	n.refresh(m.Now)
	n.Settle()
	n.Outbox.flush(m)
}

// Settle carries effects until no component has any.
func (n *Node) Settle() {
	for busy := true; busy; {
		busy = false
		if r := n.Session.Ready(); !r.Empty() {
			busy = true
			n.carrySession(r)
		}
		if r := n.Peers.Ready(); !r.Empty() {
			busy = true
			n.carryPeers(r)
		}
		if r := n.Leases.Ready(); !r.Empty() {
			busy = true
			n.carryLeases(r)
		}
		if r := n.Mutexes.Ready(); !r.Empty() {
			busy = true
			n.carryMutexes(r)
		}
		if r := n.cache.Ready(); !r.Empty() {
			busy = true
			n.carryCache(r)
		}
		if r := n.audit.audit.Ready(); !r.Empty() {
			busy = true
			n.audit.carry(r)
		}
	}
}

// Sleep is how long the caller may wait before the next Tick: no longer than T/50, so that no deadline hangs on one
// timer.
func (n *Node) Sleep() time.Duration {
	now := n.clock.Now()
	wait := min(n.p.Wake, n.Peers.Wait(n.Session.Machine(), now), n.Outbox.counters.Wait(now), n.cache.Wait(now))
	if d, ok := n.Session.Wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := n.Leases.ReportDelay(now); ok {
		wait = min(wait, d)
	}
	if d, ok := n.Mutexes.Wait(now); ok {
		wait = min(wait, d)
	}
	return max(wait, time.Millisecond)
}

// Changes is what is new to a view since the last call.
func (n *Node) Changes() Changes {
	c := n.changes
	n.changes = Changes{}
	return c
}

// Close begins to give everything up. Keys that are not handed over by somebody who knows better are released for
// anyone.
func (n *Node) Close() {
	m := n.Moment()
	if n.Session.Close(m) {
		n.Leases.ReleaseAll(record.ReasonShutdown, m)
		n.Mutexes.Close(m)
	}
}

// Over says whether nothing is left to do after Close. unheard says that nothing runs any more, and the store has
// not answered for T.
func (n *Node) Over() (ended, unheard bool) {
	if !n.Session.Closing() {
		return false, false
	}
	now := n.clock.Now()
	ended = n.Session.Machine().Phase == protocol.Ended
	return ended, !ended && n.runs.Count() == 0 && n.Session.ClosingFor(n.p.T, now) && n.Peers.Reach.Silent(n.p.T, now)
}
