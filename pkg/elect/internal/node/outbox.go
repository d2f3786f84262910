package node

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Outbox is what goes out.
type Outbox struct {
	batches  outbox.Batches
	counters outbox.Counters
	events   outbox.Events
}

// increment notes that a session's state changed: that concerns every group.
func (o *Outbox) increment(groups []string, now protocol.Instant) {
	o.counters.Increment(cache.CounterMembers, now)
	for _, group := range groups {
		o.counters.Increment(group, now)
	}
}

// Note queues an event of a session.
func (o *Outbox) Note(ev record.Event, session string, m protocol.Moment) {
	o.events.Note(ev, session, m.Clock, m.Now)
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is worth an event.
func (o *Outbox) noteMove(is record.Lock, session string, m protocol.Moment) {
	if is.Reason == record.ReasonCreated && o.events.Crowded() {
		return
	}
	o.Note(record.Event{
		Type: "Moved", Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token, Message: is.Message,
	}, session, m)
}

// flush sends what the outbox has. It is called once nothing else is left to do, so that what came up together goes out together.
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
		doc := store.Doc{Kind: store.KindGroup, ID: d.Counter, Rev: max(d.Mark, known), WriterID: n.Session.IDs().Next()}
		changes[i] = store.Change{Op: store.Increment, Doc: doc}
	}
	return changes
}

// LastIncrements notify others of what was released at the very end: there is no next Tick that would.
func (n *Node) LastIncrements() []store.Change { return n.increments(n.Outbox.counters.Rest()) }
