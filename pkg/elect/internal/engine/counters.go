package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

const (
	// incrementGap is the least time between two batches of increments.
	incrementGap = 250 * time.Millisecond
	// incrementDelay lets a hand-over go first. Its receiver is notified by the locks, and every replica that looks
	// because of a counter takes time from it.
	incrementDelay = 100 * time.Millisecond
	// releaseGap replaces both for a release that names no receiver: someone may wait for it.
	releaseGap = 100 * time.Millisecond
	// lateGap is for changes that are for people only.
	lateGap = time.Second
	// Never is a wait that an answer, or something to do, ends first.
	Never = time.Hour
)

// Counters increments the groups' counters: soon after each batch of changes, and not too often. The zero value has
// nothing to do.
type Counters struct {
	due    map[string]bool
	since  protocol.Instant // when the first of due came up
	last   protocol.Instant // the last increment
	urgent bool             // due holds a release that someone may wait for
	flying bool
	late   map[string]bool // changes for people only
	lateAt protocol.Instant
	marks  map[string]int64 // the largest revision written since the last increment, by counter
}

// Mark notes a revision that the counter's next increment is to carry: the high-water mark of its group.
func (c *Counters) Mark(counter string, rev int64) {
	if rev <= 0 || rev > store.MaxMark {
		return // written out of band: no time, and nothing could be created above it
	}
	if c.marks == nil {
		c.marks = map[string]int64{}
	}
	c.marks[counter] = max(c.marks[counter], rev)
}

// Increment notes that something of the group changed and others should look.
func (c *Counters) Increment(group string, now protocol.Instant) {
	if c.due == nil {
		c.due, c.since = map[string]bool{}, now
	}
	c.due[group] = true
}

// Urgent notes a release that names no receiver.
func (c *Counters) Urgent(group string, now protocol.Instant) {
	c.Increment(group, now)
	c.urgent = true
}

// Late notes a change that is for people only.
func (c *Counters) Late(group string) {
	if c.late == nil {
		c.late = map[string]bool{}
	}
	c.late[group] = true
}

// Wait is how long it takes until Next has something to send.
func (c *Counters) Wait(now protocol.Instant) time.Duration {
	switch {
	case c.flying:
		return Never
	case len(c.due) > 0 && c.urgent:
		return releaseGap - now.HolderElapsed(c.last)
	case len(c.due) > 0:
		return max(incrementGap-now.HolderElapsed(c.last), incrementDelay-now.HolderElapsed(c.since))
	case len(c.late) > 0:
		return lateGap - now.HolderElapsed(c.lateAt)
	}
	return Never
}

// Increment is one counter to be incremented.
type Increment struct {
	Counter string
	Mark    int64
}

// Next takes the counters that are to be incremented now: none while an increment is under way, or when it is not
// time yet.
func (c *Counters) Next(now protocol.Instant) []Increment {
	if len(c.late) > 0 && now.Reached(c.lateAt, lateGap) {
		c.lateAt = now
		for group := range c.late {
			c.Increment(group, now)
		}
		c.late = nil
	}
	if len(c.due) == 0 || c.Wait(now) > 0 {
		return nil
	}
	c.flying, c.last = true, now
	return c.take()
}

// Rest takes whatever is due, whatever the time: there is no next turn of the loop.
func (c *Counters) Rest() []Increment { return c.take() }

func (c *Counters) take() []Increment {
	due := make([]Increment, 0, len(c.due))
	for counter := range c.due {
		due = append(due, Increment{counter, c.marks[counter]})
		delete(c.marks, counter)
	}
	slices.SortFunc(due, func(a, b Increment) int { return cmp.Compare(a.Counter, b.Counter) })
	c.due, c.urgent = nil, false
	return due
}

// Done says how the increment of these counters ended. One that failed is repeated. It may then count twice: the
// counter says only that something happened.
func (c *Counters) Done(sent []Increment, ok bool, now protocol.Instant) {
	c.flying = false
	if ok {
		return
	}
	for _, i := range sent {
		c.Increment(i.Counter, now)
		c.Mark(i.Counter, i.Mark)
	}
}

const (
	eventDelay = 250 * time.Millisecond // writing events must not hold up what they are about
	maxEvents  = 1_000                  // waiting to be written; more are dropped
	eachClaim  = 50                     // first claims are noted one by one up to so many waiting events
	eventBatch = 100
)

// EventQueue writes events asynchronously: for people, best effort, bounded. The zero value is empty.
type EventQueue struct {
	queue  []record.Event
	since  protocol.Instant // when the first of the queue came up
	sent   []store.Change   // the batch under way, or to be repeated as it was
	flying bool
	after  protocol.Instant // no repeat before, after a failure
	count  int64
}

// Note queues an event. clock is the store's, Unix ms; session is who notes it. Time and ID are filled in.
func (e *EventQueue) Note(ev record.Event, session string, clock int64, now protocol.Instant) {
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
func (e *EventQueue) Busy() bool { return len(e.queue) >= eachClaim }

// Next takes the next batch. One whose answer was lost is sent again, the very same, until it is answered.
func (e *EventQueue) Next(ids *record.WriterIDs, now protocol.Instant) []store.Change {
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

// Done takes the outcomes of the batch under way. What was not answered is repeated after again.
func (e *EventQueue) Done(outs []store.Outcome, again protocol.Instant) {
	sent := e.sent
	e.flying, e.sent = false, nil
	for i, out := range outs {
		if record.StatusOf(out) == protocol.Unknown {
			e.sent = append(e.sent, sent[i])
		}
	}
	if len(e.sent) > 0 {
		e.after = again
	}
}

// Rest takes all that is left, a batch that was not answered included: there is no next turn of the loop.
func (e *EventQueue) Rest(ids *record.WriterIDs) []store.Change {
	rest := e.sent
	for _, ev := range e.queue {
		rest = append(rest, store.Change{Doc: ev.Doc(ids.Next())})
	}
	e.queue, e.sent = nil, nil
	return rest
}
