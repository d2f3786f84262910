package engine

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Outbox is what goes out. It queues, sends what is due, and takes the answers.
type Outbox struct {
	keyWrites   WriteQueue
	mutexWrites WriteQueue // their writes
	counters    Counters
	events      EventQueue

	send       func(r ApplyRequest, then func(Answer))
	cache      SharedCache
	keys       *Keys
	mutexTable *Mutexes
	session    author
	moment     func() protocol.Moment
	retry      time.Duration // before events whose answer was lost are sent again
}

// author is the own session: what goes out is written in its name.
type author interface {
	ID() string
	IDs() *record.WriterIDs
	Machine() protocol.Session
}

// increment notes that a session's state changed: that concerns every group.
func (o *Outbox) increment(groups []string, now protocol.Instant) {
	o.counters.Increment(CounterMembers, now)
	for _, group := range groups {
		o.counters.Increment(group, now)
	}
}

// Note queues an event of the own session.
func (o *Outbox) Note(ev record.Event, m protocol.Moment) { o.noteOf(o.session.ID(), ev, m) }

// noteOf queues an event of a session.
func (o *Outbox) noteOf(session string, ev record.Event, m protocol.Moment) {
	o.events.Note(ev, session, m.Clock, m.Now)
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is
// worth an event.
func (o *Outbox) noteMove(is record.Lock, m protocol.Moment) {
	if is.Reason == record.ReasonCreated && o.events.Busy() {
		return
	}
	o.Note(record.Event{
		Type: record.EventMoved, Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token,
		Message: is.Message,
	}, m)
}

// noteRelease notes that a key was released for a reason and is reserved for none: a move is noted by who receives it.
func (o *Outbox) noteRelease(is record.Lock, given record.Reason, m protocol.Moment) {
	if given == "" || is.Next != "" || given == record.ReasonShutdown && o.events.Busy() {
		return
	}
	o.Note(record.Event{
		Type: record.EventReleased, Reason: is.Reason, Key: is.Key, From: is.From, Token: is.Token, Message: is.Message,
	}, m)
}

// flush sends what is due. It is called once nothing else is left to do, so that what came up together goes out
// together.
func (o *Outbox) flush(m protocol.Moment) {
	for {
		batch, ok := o.keyWrites.Next()
		if !ok {
			break
		}
		o.sendBatch(batch)
	}
	for {
		batch, ok := o.mutexWrites.Next()
		if !ok {
			break
		}
		o.sendMutexes(batch)
	}
	if due := o.counters.Next(m.Now); len(due) > 0 {
		o.send(ApplyRequest{Op: "increment", Changes: o.increments(due)}, func(a Answer) {
			o.counters.Done(due, !slices.ContainsFunc(a.Outcomes, unanswered), o.moment().Now)
		})
	}
	// Events are for people: what they are about goes first.
	if o.session.Machine().Phase == protocol.Open && o.keyWrites.Owners() == 0 {
		o.sendEvents(m)
	}
}

// sendEvents sends the events that are due. Once they are written, a counter has those look who watch events.
func (o *Outbox) sendEvents(m protocol.Moment) {
	changes := o.events.Next(o.session.IDs(), m.Now)
	if len(changes) == 0 {
		return
	}
	o.send(ApplyRequest{Op: "event", Changes: changes}, func(a Answer) {
		o.events.Done(a.Outcomes, o.moment().Now.Add(o.retry))
		if slices.ContainsFunc(a.Outcomes, func(out store.Outcome) bool { return out.Status != store.Unknown }) {
			o.counters.Late(CounterEvents)
		}
	})
}

// sendBatch sends the writes of keys.
func (o *Outbox) sendBatch(batch WriteBatch) {
	changes := o.keys.Prepare(batch.Keys, o.moment())
	if len(changes) == 0 {
		o.keyWrites.Done(batch)
		return
	}
	o.send(ApplyRequest{Op: "apply", Changes: changes}, func(a Answer) {
		o.keyWrites.Done(batch)
		m := o.moment()
		for i, c := range changes {
			o.keys.Answered(record.Key(c.Doc.ID), c.Doc.WriterID, record.StatusOf(a.Outcomes[i]), a.Locks[i], m)
		}
	})
}

// sendMutexes sends the writes of mutexes.
func (o *Outbox) sendMutexes(batch WriteBatch) {
	ids := make([]string, len(batch.Keys))
	for i, key := range batch.Keys {
		ids[i] = string(key)
	}
	changes := o.mutexTable.Prepare(ids, o.moment())
	if len(changes) == 0 {
		o.mutexWrites.Done(batch)
		return
	}
	seqs := make([]int64, len(changes))
	for i, c := range changes {
		seqs[i] = o.mutexTable.Seq(c.Doc.ID)
	}
	o.send(ApplyRequest{Op: "apply", Changes: changes}, func(a Answer) {
		o.mutexWrites.Done(batch)
		m := o.moment()
		for i, c := range changes {
			o.mutexTable.Answered(c.Doc.ID, seqs[i], record.StatusOf(a.Outcomes[i]), a.Mutexes[i], m)
		}
	})
}

// unanswered says whether a change is to be sent again. One that the store can never take is not.
func unanswered(out store.Outcome) bool {
	return out.Err != nil && record.StatusOf(out) != protocol.Unwritable
}

// increments are the changes that increment these counters. Each carries the largest revision known of its group.
func (o *Outbox) increments(due []Increment) []store.Change {
	changes := make([]store.Change, len(due))
	for i, d := range due {
		known := o.cache.MaxRev(d.Counter)
		if known > store.MaxMark {
			known = 0 // edited manually: no time, and nothing could be created above it
		}
		doc := store.Doc{
			Kind: store.KindGroup, ID: d.Counter, Rev: max(d.Mark, known), WriterID: o.session.IDs().Next(),
		}
		changes[i] = store.Change{Op: store.Increment, Doc: doc}
	}
	return changes
}

// LastIncrements notify others of what was released at the very end: there is no next Tick that would.
func (o *Outbox) LastIncrements() []store.Change { return o.increments(o.counters.Rest()) }

// LastEvents are those that were not written yet. They come after the last increments, and [record.EventsWritten]
// after them.
func (o *Outbox) LastEvents() []store.Change { return o.events.Rest(o.session.IDs()) }

// maxInFlight is how many batches are under way at once. A database answers one batch of many sooner than many of one.
const maxInFlight = 4

// WriteQueue gathers the writes of keys. Whatever has come up while the batches before were under way goes out
// together. Changes of ownership go before reports, which are for people. The zero value is empty.
type WriteQueue struct {
	owners, reports []record.Key
	flying          int  // batches under way
	reporting       bool // one of them is of reports
}

// WriteBatch is a list of keys whose writes go out together.
type WriteBatch struct {
	Keys   []record.Key
	Report bool
}

// Add puts a key's write into the queue.
func (b *WriteQueue) Add(key record.Key, report bool) {
	if report {
		b.reports = append(b.reports, key)
	} else {
		b.owners = append(b.owners, key)
	}
}

// Owners is how many changes of ownership wait.
func (b *WriteQueue) Owners() int { return len(b.owners) }

// Next takes the next batch out of the queue; ok is false when nothing may be sent now. The batch counts as under
// way until Done.
func (b *WriteQueue) Next() (batch WriteBatch, ok bool) {
	from := &b.owners
	if len(b.owners) == 0 {
		from = &b.reports
		batch.Report = true
	}
	// One batch of reports at a time: a release may wait for one of them.
	if b.flying >= maxInFlight || len(*from) == 0 || batch.Report && b.reporting {
		return WriteBatch{}, false
	}
	n := min(len(*from), store.MaxBatch)
	batch.Keys = (*from)[:n:n]
	*from = (*from)[n:]
	b.flying++
	b.reporting = b.reporting || batch.Report
	return batch, true
}

// Done says that a batch is not under way any more.
func (b *WriteQueue) Done(batch WriteBatch) {
	b.flying--
	b.reporting = b.reporting && !batch.Report
}
