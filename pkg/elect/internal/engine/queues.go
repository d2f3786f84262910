package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// maxInFlight is how many batches are under way at once. A database answers one batch of many sooner than many of one.
const maxInFlight = 4

// writeQueue gathers the writes of keys. Whatever has come up while the batches before were under way goes out
// together. Changes of ownership go before reports, which are for people. The zero value is empty.
type writeQueue struct {
	owners, reports []record.Key
	flying          int  // batches under way
	reporting       bool // one of them is of reports
}

// writeBatch is a list of keys whose writes go out together.
type writeBatch struct {
	keys   []record.Key
	report bool
}

// add puts a key's write into the queue.
func (b *writeQueue) add(key record.Key, report bool) {
	if report {
		b.reports = append(b.reports, key)
	} else {
		b.owners = append(b.owners, key)
	}
}

// waitingOwners is how many changes of ownership wait.
func (b *writeQueue) waitingOwners() int { return len(b.owners) }

// next takes the next batch out of the queue; ok is false when nothing may be sent now. The batch counts as under
// way until done is called.
func (b *writeQueue) next() (batch writeBatch, ok bool) {
	from := &b.owners
	if len(b.owners) == 0 {
		from = &b.reports
		batch.report = true
	}
	// One batch of reports at a time: a release may wait for one of them.
	if b.flying >= maxInFlight || len(*from) == 0 || batch.report && b.reporting {
		return writeBatch{}, false
	}
	n := min(len(*from), driver.MaxBatch)
	batch.keys = (*from)[:n:n]
	if *from = (*from)[n:]; len(*from) == 0 {
		*from = nil // a burst must not hold its memory for ever
	}
	b.flying++
	b.reporting = b.reporting || batch.report
	return batch, true
}

// done says that a batch is not under way any more.
func (b *writeQueue) done(batch writeBatch) {
	b.flying--
	b.reporting = b.reporting && !batch.report
}

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
	// never is a wait that an answer, or something to do, ends first.
	never = time.Hour
)

// counterQueue increments the groups' counters, soon after each batch of changes, and not too often. The zero value has
// nothing to do.
type counterQueue struct {
	due    map[string]bool
	since  protocol.Instant // when the first of due came up
	last   protocol.Instant // the last increment
	urgent bool             // due holds a release that someone may wait for
	flying bool
	late   map[string]bool // changes for people only
	lateAt protocol.Instant
	marks  map[string]int64 // the largest revision written since the last increment, by counter
}

// mark notes a revision that the counter's next increment is to carry: the high-water mark of its group.
func (c *counterQueue) mark(counter string, rev int64) {
	if rev <= 0 || rev > driver.MaxMark {
		return // written out of band: no time, and nothing could be created above it
	}
	if c.marks == nil {
		c.marks = map[string]int64{}
	}
	c.marks[counter] = max(c.marks[counter], rev)
}

// add notes that something of the group changed and others should look.
func (c *counterQueue) add(group string, now protocol.Instant) {
	if c.due == nil {
		c.due, c.since = map[string]bool{}, now
	}
	c.due[group] = true
}

// addUrgent notes a release that names no receiver.
func (c *counterQueue) addUrgent(group string, now protocol.Instant) {
	c.add(group, now)
	c.urgent = true
}

// addLate notes a change that is for people only.
func (c *counterQueue) addLate(group string) {
	if c.late == nil {
		c.late = map[string]bool{}
	}
	c.late[group] = true
}

// wait is how long it takes until Next has something to send.
func (c *counterQueue) wait(now protocol.Instant) time.Duration {
	switch {
	case c.flying:
		return never
	case len(c.due) > 0 && c.urgent:
		return releaseGap - now.HolderElapsed(c.last)
	case len(c.due) > 0:
		return max(incrementGap-now.HolderElapsed(c.last), incrementDelay-now.HolderElapsed(c.since))
	case len(c.late) > 0:
		return lateGap - now.HolderElapsed(c.lateAt)
	}
	return never
}

// counterIncrement is one counter to be incremented.
type counterIncrement struct {
	Counter string
	Mark    int64
}

// next takes the counters that are to be incremented now: none while an increment is under way, or when it is not
// time yet.
func (c *counterQueue) next(now protocol.Instant) []counterIncrement {
	if len(c.late) > 0 && now.Reached(c.lateAt, lateGap) {
		c.lateAt = now
		for group := range c.late {
			c.add(group, now)
		}
		c.late = nil
	}
	if len(c.due) == 0 || c.wait(now) > 0 {
		return nil
	}
	c.flying, c.last = true, now
	return c.take()
}

// rest takes whatever is due, whatever the time: there is no next turn of the loop.
func (c *counterQueue) rest() []counterIncrement { return c.take() }

func (c *counterQueue) take() []counterIncrement {
	due := make([]counterIncrement, 0, len(c.due))
	for counter := range c.due {
		due = append(due, counterIncrement{counter, c.marks[counter]})
		delete(c.marks, counter)
	}
	slices.SortFunc(due, func(a, b counterIncrement) int { return cmp.Compare(a.Counter, b.Counter) })
	c.due, c.urgent = nil, false
	return due
}

// done says how the increment of these counters ended. One that failed is repeated. It may then count twice: the
// counter says only that something happened.
func (c *counterQueue) done(sent []counterIncrement, ok bool, now protocol.Instant) {
	c.flying = false
	if ok {
		return
	}
	for _, i := range sent {
		c.add(i.Counter, now)
		c.mark(i.Counter, i.Mark)
	}
}

const (
	eventDelay = 250 * time.Millisecond // writing events must not hold up what they are about
	maxEvents  = 1_000                  // waiting to be written; more are dropped
	eachClaim  = 50                     // first claims are noted one by one up to so many waiting events
	eventBatch = 100
)

// eventQueue writes events asynchronously: for people, best effort, bounded. The zero value is empty.
type eventQueue struct {
	queue  []record.Event
	since  protocol.Instant // when the first of the queue came up
	sent   []driver.Change  // the batch under way, or to be repeated as it was
	flying bool
	after  protocol.Instant // no repeat before, after a failure
	count  int64
}

// note queues an event. clock is the store's, Unix ms; session is who notes it. Time and ID are filled in.
func (e *eventQueue) note(ev record.Event, session string, clock int64, now protocol.Instant) {
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

// busy says whether so many events wait that first claims are no longer worth one each.
func (e *eventQueue) busy() bool { return len(e.queue) >= eachClaim }

// next takes the next batch. One whose answer was lost is sent again, the very same, until it is answered.
func (e *eventQueue) next(ids *record.WriterIDs, now protocol.Instant) []driver.Change {
	if e.flying || now.HolderElapsed(e.after) < 0 {
		return nil
	}
	if len(e.sent) == 0 {
		if len(e.queue) == 0 || !now.Reached(e.since, eventDelay) {
			return nil
		}
		n := min(len(e.queue), eventBatch)
		e.sent = make([]driver.Change, n)
		for i, ev := range e.queue[:n] {
			e.sent[i] = driver.Change{Doc: ev.Doc(ids.Next())}
		}
		e.queue = append(e.queue[:0:0], e.queue[n:]...)
	}
	e.flying = true
	return e.sent
}

// done takes the outcomes of the batch under way. What was not answered is repeated after again.
func (e *eventQueue) done(outs []driver.Outcome, again protocol.Instant) {
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

// rest takes all that is left, a batch that was not answered included: there is no next turn of the loop.
func (e *eventQueue) rest(ids *record.WriterIDs) []driver.Change {
	rest := e.sent
	for _, ev := range e.queue {
		rest = append(rest, driver.Change{Doc: ev.Doc(ids.Next())})
	}
	e.queue, e.sent = nil, nil
	return rest
}
