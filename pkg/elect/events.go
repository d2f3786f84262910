package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// eventWriter writes events beside everything else: for people, best effort, bounded.
type eventWriter struct {
	queue  []Event
	since  protocol.Instant // when the first of the queue came up
	sent   []store.Change   // the batch under way, or to be repeated as it was
	flying bool
	after  protocol.Instant // no repeat before, after a failure
	seq    int64
}

const (
	eventDelay   = 250 * time.Millisecond // writing them must not hold up what they tell of
	maxEvents    = 1_000                  // waiting to be written; more are dropped
	eachEvent    = 50                     // first claims waiting beyond this are told in one event, not each
	keepEvents   = 5_000                  // in the store; older ones are removed
	eventBatch   = 100
	eventIDWidth = 13 // digits of a Unix time in ms until the year 2286
)

// Note writes an event to the store: soon, best effort. Time and ID are filled in.
func (e *Elector) Note(ev Event) { e.post(func() { e.note(ev) }) }

func (e *Elector) note(ev Event) {
	w := &e.loop.events
	if len(w.queue) >= maxEvents {
		return
	}
	if len(w.queue) == 0 {
		w.since = e.clock.Now()
	}
	w.seq++
	ev.Time = e.storeNow()
	ev.ID = fmt.Sprintf("%0*d-%.8s-%06d", eventIDWidth, ev.Time, e.loop.session.id, w.seq)
	w.queue = append(w.queue, ev)
}

// noteClaim tells that a key changed its owner.
func (e *Elector) noteClaim(was, is Lock) {
	if was.Session == is.Session {
		return
	}
	w := &e.loop.events
	if is.Reason == ReasonCreated && len(w.queue) >= eachEvent {
		return
	}
	e.note(Event{
		Type: "Moved", Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token, Message: is.Message,
	})
}

// flushEvents sends the next batch. One whose answer was lost is sent again, the very same, until it is answered.
func (e *Elector) flushEvents() {
	w := &e.loop.events
	now := e.clock.Now()
	if w.flying || e.loop.session.m.Phase != protocol.Open || len(e.loop.writes.owner) > 0 || now.HolderElapsed(w.after) < 0 {
		return
	}
	if len(w.sent) == 0 {
		if len(w.queue) == 0 || !now.Reached(w.since, eventDelay) {
			return
		}
		n := min(len(w.queue), eventBatch)
		w.sent = make([]store.Change, n)
		for i, ev := range w.queue[:n] {
			w.sent[i] = store.Change{Doc: ev.Doc(e.loop.session.stamp())}
		}
		w.queue = append(w.queue[:0:0], w.queue[n:]...)
	}
	changes := w.sent
	w.flying = true
	e.beside("event", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, changes...)
		return func() {
			w.flying, w.sent = false, nil
			for i, out := range outs { // none when the store cannot take them at all
				if out.Status == store.Unknown {
					w.sent = append(w.sent, changes[i])
				}
			}
			if len(w.sent) > 0 {
				w.after = e.clock.Now().Add(e.p.Retry)
			}
		}, firstError(outs, err)
	})
}
