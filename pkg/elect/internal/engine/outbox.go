package engine

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Outbox is what goes out. It queues, sends what is due, and takes the answers.
type Outbox struct {
	keyWrites   writeQueue
	mutexWrites writeQueue // their writes
	counters    counterQueue
	events      eventQueue

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
	o.counters.add(counterMembers, now)
	for _, group := range groups {
		o.counters.add(group, now)
	}
}

// Note queues an event of the own session.
func (o *Outbox) Note(ev record.Event, m protocol.Moment) { o.noteOf(o.session.ID(), ev, m) }

// noteOf queues an event of a session.
func (o *Outbox) noteOf(session string, ev record.Event, m protocol.Moment) {
	o.events.note(ev, session, m.Clock, m.Now)
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is
// worth an event.
func (o *Outbox) noteMove(is record.Lock, m protocol.Moment) {
	if is.Reason == record.ReasonCreated && o.events.busy() {
		return
	}
	o.Note(record.Event{
		Type: record.EventMoved, Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token,
		Message: is.Message,
	}, m)
}

// noteRelease notes that a key was released for a reason and is reserved for none: a move is noted by who receives it.
func (o *Outbox) noteRelease(is record.Lock, given record.Reason, m protocol.Moment) {
	if given == "" || is.Next != "" || given == record.ReasonShutdown && o.events.busy() {
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
		batch, ok := o.keyWrites.next()
		if !ok {
			break
		}
		o.sendBatch(batch)
	}
	for {
		batch, ok := o.mutexWrites.next()
		if !ok {
			break
		}
		o.sendMutexes(batch)
	}
	if due := o.counters.next(m.Now); len(due) > 0 {
		o.send(ApplyRequest{Op: "increment", Changes: o.increments(due)}, func(a Answer) {
			o.counters.done(due, !slices.ContainsFunc(a.Outcomes, toRepeat), o.moment().Now)
		})
	}
	// Events are for people: what they are about goes first.
	if o.session.Machine().Phase == protocol.Open && o.keyWrites.waitingOwners() == 0 {
		o.sendEvents(m)
	}
}

// sendEvents sends the events that are due. Once they are written, a counter has those look who watch events.
func (o *Outbox) sendEvents(m protocol.Moment) {
	changes := o.events.next(o.session.IDs(), m.Now)
	if len(changes) == 0 {
		return
	}
	o.send(ApplyRequest{Op: "event", Changes: changes}, func(a Answer) {
		o.events.done(a.Outcomes, o.moment().Now.Add(o.retry))
		if slices.ContainsFunc(a.Outcomes, func(out driver.Outcome) bool { return out.Status != driver.Unknown }) {
			o.counters.addLate(counterEvents)
		}
	})
}

// sendBatch sends the writes of keys.
func (o *Outbox) sendBatch(batch writeBatch) {
	changes := o.keys.prepare(batch.keys, o.moment())
	if len(changes) == 0 {
		o.keyWrites.done(batch)
		return
	}
	o.send(ApplyRequest{Op: "apply", Changes: changes}, func(a Answer) {
		o.keyWrites.done(batch)
		m := o.moment()
		for i, c := range changes {
			o.keys.heard(record.Key(c.Doc.ID), c.Doc.WriterID, a.Outcomes[i].Err)
			o.keys.answered(record.Key(c.Doc.ID), c.Doc.WriterID, record.StatusOf(a.Outcomes[i]), a.Locks[i], m)
		}
	})
}

// sendMutexes sends the writes of mutexes.
func (o *Outbox) sendMutexes(batch writeBatch) {
	ids := make([]string, len(batch.keys))
	for i, key := range batch.keys {
		ids[i] = string(key)
	}
	changes := o.mutexTable.prepare(ids, o.moment())
	if len(changes) == 0 {
		o.mutexWrites.done(batch)
		return
	}
	o.send(ApplyRequest{Op: "apply", Changes: changes}, func(a Answer) {
		o.mutexWrites.done(batch)
		m := o.moment()
		for i, c := range changes {
			o.mutexTable.answered(c, a.Outcomes[i], a.Mutexes[i], m)
		}
	})
}

// toRepeat reports whether a change is to be sent again. One that the store can never take is not.
func toRepeat(out driver.Outcome) bool {
	return out.Err != nil && record.StatusOf(out) != protocol.Unwritable
}

// increments are the changes that increment these counters. Each carries the largest revision known of its group.
func (o *Outbox) increments(due []counterIncrement) []driver.Change {
	changes := make([]driver.Change, len(due))
	for i, d := range due {
		known := o.cache.MaxRev(d.Counter)
		if known > driver.MaxMark {
			known = 0 // edited manually: no time, and nothing could be created above it
		}
		doc := driver.Doc{
			Kind: driver.KindGroup, ID: d.Counter, Rev: max(d.Mark, known), WriterID: o.session.IDs().Next(),
		}
		changes[i] = driver.Change{Op: driver.Increment, Doc: doc}
	}
	return changes
}

// LastIncrements notify others of what was released at the very end: there is no next Tick that would.
func (o *Outbox) LastIncrements() []driver.Change { return o.increments(o.counters.rest()) }

// LastEvents are those that were not written yet. They come after the last increments, and [record.EventsWritten]
// after them.
func (o *Outbox) LastEvents() []driver.Change { return o.events.rest(o.session.IDs()) }
