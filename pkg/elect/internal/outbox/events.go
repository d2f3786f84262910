package outbox

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

const (
	eventDelay = 250 * time.Millisecond // writing events must not hold up what they are about
	maxEvents  = 1_000                  // waiting to be written; more are dropped
	eachClaim  = 50                     // first claims are noted one by one up to so many waiting events
	eventBatch = 100
)

// Events writes events asynchronously: for people, best effort, bounded. The zero value is empty.
type Events struct {
	queue  []record.Event
	since  protocol.Instant // when the first of the queue came up
	sent   []store.Change   // the batch under way, or to be repeated as it was
	flying bool
	after  protocol.Instant // no repeat before, after a failure
	count  int64
}

// Note queues an event. clock is the store's, Unix ms; session is who notes it. Time and ID are filled in.
func (e *Events) Note(ev record.Event, session string, clock int64, now protocol.Instant) {
	if len(e.queue) >= maxEvents {
		return
	}
	if len(e.queue) == 0 {
		e.since = now
	}
	e.count++
	ev.Time = clock
	ev.ID = record.EventID(ev.Time, session, e.count)
	e.queue = append(e.queue, ev)
}

// Busy says whether so many events wait that first claims are no longer worth one each.
func (e *Events) Busy() bool { return len(e.queue) >= eachClaim }

// Next takes the next batch. One whose answer was lost is sent again, the very same, until it is answered.
func (e *Events) Next(ids *record.WriterIDs, now protocol.Instant) []store.Change {
	if e.flying || now.HolderElapsed(e.after) < 0 {
		return nil
	}
	if len(e.sent) == 0 {
		if len(e.queue) == 0 || !now.Reached(e.since, eventDelay) {
			return nil
		}
		n := min(len(e.queue), eventBatch)
		e.sent = make([]store.Change, n)
		for i, ev := range e.queue[:n] {
			e.sent[i] = store.Change{Doc: ev.Doc(ids.Next())}
		}
		e.queue = append(e.queue[:0:0], e.queue[n:]...)
	}
	e.flying = true
	return e.sent
}

// Done takes the outcomes of the batch under way; none when the store cannot take it at all. It is repeated after
// again.
func (e *Events) Done(outs []store.Outcome, again protocol.Instant) {
	sent := e.sent
	e.flying, e.sent = false, nil
	for i, out := range outs {
		if out.Status == store.Unknown {
			e.sent = append(e.sent, sent[i])
		}
	}
	if len(e.sent) > 0 {
		e.after = again
	}
}

// Rest takes all that is left, a batch that was not answered included: there is no next turn of the loop.
func (e *Events) Rest(ids *record.WriterIDs) []store.Change {
	rest := e.sent
	for _, ev := range e.queue {
		rest = append(rest, store.Change{Doc: ev.Doc(ids.Next())})
	}
	e.queue, e.sent = nil, nil
	return rest
}
