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
	n.calls.do("apply", func(ctx context.Context) (func(), error) {
		outs, err := n.store.Apply(ctx, changes...)
		if err != nil {
			outs, err = n.applyEach(ctx, changes)
		}
		found := make([]*record.Lock, len(outs))
		for i, out := range outs {
			found[i] = n.found(out.Doc)
		}
		return func() {
			n.outbox.batches.Done(batch)
			m := n.moment()
			for i, c := range changes {
				n.leases.Answered(record.Key(c.Doc.ID), c.Doc.WriterID, record.StatusOf(outs[i]), found[i], m)
			}
		}, firstError(outs, err)
	})
}

// applyEach sends changes one by one: the store cannot take one of them at all, and the others must not wait for it.
func (n *node) applyEach(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	var failed error
	outs := make([]store.Outcome, len(changes))
	for i, c := range changes {
		out, err := n.store.Apply(ctx, c)
		if err != nil {
			n.log.Error(err, "The store cannot take this write", "key", c.Doc.ID)
			failed = err
			continue
		}
		outs[i] = out[0]
	}
	return outs, failed
}

func (n *node) increments(due []outbox.Increment) []store.Change {
	changes := make([]store.Change, len(due))
	for i, d := range due {
		n.outbox.counters.Mark(d.Counter, 0)
		doc := store.Doc{Kind: store.KindGroup, ID: d.Counter, Rev: max(d.Mark, n.mark(d.Counter)), WriterID: n.session.IDs().Next()}
		changes[i] = store.Change{Op: store.Increment, Doc: doc}
	}
	return changes
}

// mark is the largest revision known of a tracked group, as far as an increment may carry it.
func (n *node) mark(counter string) int64 {
	if rev := n.cache.MaxRev(counter); rev <= store.MaxMark {
		return rev
	}
	return 0
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

// note queues an event.
func (n *node) note(ev Event) {
	n.outbox.events.Note(ev, n.session.ID(), n.times.now(), n.clock.Now())
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is worth an event.
func (n *node) noteMove(is Lock) {
	if is.Reason == ReasonCreated && n.outbox.events.Crowded() {
		return
	}
	n.note(Event{
		Type: "Moved", Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token, Message: is.Message,
	})
}
