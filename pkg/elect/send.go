package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// flush sends what the outbox has. The loop calls it once nothing else is left to do, so that what came up together goes out together.
func (n *node) flush(m protocol.Moment) {
	for {
		batch, ok := n.outbox.batches.Next()
		if !ok {
			break
		}
		n.sendBatch(batch)
	}
	if due := n.outbox.counters.Next(m.Now); len(due) > 0 {
		n.calls.apply("increment", n.increments(due), func(outs []store.Outcome, _ bool) {
			n.outbox.counters.Done(due, firstError(outs, nil) == nil, n.clock.Now())
		})
	}
	// Events are for people: what they are about goes first.
	if n.session.Machine().Phase == protocol.Open && n.outbox.batches.Owners() == 0 {
		if changes := n.outbox.events.Next(n.session.IDs(), m.Now); len(changes) > 0 {
			n.calls.apply("event", changes, func(outs []store.Outcome, malformed bool) {
				if malformed {
					outs = nil
				}
				n.outbox.events.Done(outs, n.clock.Now().Add(n.p.Retry))
			})
		}
	}
}

// sendBatch sends the writes of keys.
func (n *node) sendBatch(batch outbox.Batch) {
	changes := n.leases.Prepare(batch.Keys, n.moment())
	if len(changes) == 0 {
		n.outbox.batches.Done(batch)
		return
	}
	n.calls.writeLocks(changes, func(outs []store.Outcome, found []*record.Lock) {
		n.outbox.batches.Done(batch)
		m := n.moment()
		for i, c := range changes {
			n.leases.Answered(record.Key(c.Doc.ID), c.Doc.WriterID, record.StatusOf(outs[i]), found[i], m)
		}
	})
}

// increments are the changes that increment these counters. Each carries the largest revision known of its group.
func (n *node) increments(due []outbox.Increment) []store.Change {
	changes := make([]store.Change, len(due))
	for i, d := range due {
		known := n.cache.MaxRev(d.Counter)
		if known > store.MaxMark {
			known = 0 // edited manually: no time, and nothing could be created above it
		}
		doc := store.Doc{Kind: store.KindGroup, ID: d.Counter, Rev: max(d.Mark, known), WriterID: n.session.IDs().Next()}
		changes[i] = store.Change{Op: store.Increment, Doc: doc}
	}
	return changes
}

// lastIncrements notify others of what was released at the very end: there is no next turn of the loop that would.
func (n *node) lastIncrements() {
	due := n.outbox.counters.Rest()
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(n.calls.ctx, n.p.Op)
	defer cancel()
	if outs, err := n.store.Apply(ctx, n.increments(due)...); firstError(outs, err) != nil {
		n.log.V(1).Info("Others were not notified of the end of the session", "session", n.session.ID())
	}
}
