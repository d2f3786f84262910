package node

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Tick lets time pass for every component, and carries what came of it and of the events before.
func (n *Node) Tick() {
	m := n.Moment()
	n.Session.Tick(m)
	n.Settle()
	n.Session.Idle(n.runs.Count(), n.Leases.Len(), m)
	n.Settle()
	m = n.Moment()
	n.Peers.EndPredecessors(n.Session.Announced() && n.cache.Loaded(), m)
	n.Peers.Tick(n.Session.Machine(), n.cache.LongestLease(), m)
	n.Settle()
	n.Leases.Tick(m)
	n.Session.Announce(m)
	n.Settle()
	n.audit.tick(m)
	n.refresh(m.Now)
	n.Settle()
	n.flush(m)
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

// flush sends what the outbox has. It is called once nothing else is left to do, so that what came up together goes
// out together.
func (n *Node) flush(m protocol.Moment) {
	for {
		batch, ok := n.Outbox.batches.Next()
		if !ok {
			break
		}
		n.sendBatch(batch)
	}
	if due := n.Outbox.counters.Next(m.Now); len(due) > 0 {
		n.store.Apply("increment", n.increments(due), func(outs []store.Outcome, _ bool) {
			failed := slices.ContainsFunc(outs, func(out store.Outcome) bool { return out.Err != nil })
			n.Outbox.counters.Done(due, !failed, n.clock.Now())
		})
	}
	// Events are for people: what they are about goes first.
	if n.Session.Machine().Phase == protocol.Open && n.Outbox.batches.Owners() == 0 {
		if changes := n.Outbox.events.Next(n.Session.IDs(), m.Now); len(changes) > 0 {
			n.store.Apply("event", changes, func(outs []store.Outcome, malformed bool) {
				if malformed {
					outs = nil
				}
				n.Outbox.events.Done(outs, n.clock.Now().Add(n.p.Retry))
			})
		}
	}
}

// sendBatch sends the writes of keys.
func (n *Node) sendBatch(batch outbox.Batch) {
	changes := n.Leases.Prepare(batch.Keys, n.Moment())
	if len(changes) == 0 {
		n.Outbox.batches.Done(batch)
		return
	}
	n.store.WriteLocks("apply", changes, func(outs []store.Outcome, found []*record.Lock) {
		n.Outbox.batches.Done(batch)
		m := n.Moment()
		for i, c := range changes {
			n.Leases.Answered(record.Key(c.Doc.ID), c.Doc.WriterID, record.StatusOf(outs[i]), found[i], m)
		}
	})
}

// increments are the changes that increment these counters. Each carries the largest revision known of its group.
func (n *Node) increments(due []outbox.Increment) []store.Change {
	changes := make([]store.Change, len(due))
	for i, d := range due {
		known := n.cache.MaxRev(d.Counter)
		if known > store.MaxMark {
			known = 0 // edited manually: no time, and nothing could be created above it
		}
		doc := store.Doc{
			Kind: store.KindGroup, ID: d.Counter, Rev: max(d.Mark, known), WriterID: n.Session.IDs().Next(),
		}
		changes[i] = store.Change{Op: store.Increment, Doc: doc}
	}
	return changes
}

// LastIncrements notify others of what was released at the very end: there is no next Tick that would.
func (n *Node) LastIncrements() []store.Change { return n.increments(n.Outbox.counters.Rest()) }
