// Package flow decides what is to be done with the messages of one subscription: which are delivered now, which wait,
// which become dead letters, and which may be acknowledged.
//
// It is a state machine: it starts no goroutine, does no I/O and reads no clock. Its rules:
//
//   - At most InFlight messages are held: received and not acknowledged. Where the source can skip partitions, that
//     counts for each partition with a message that failed, and for all others together.
//   - A lane is a partition, a key of it, or a single message, by the order that is asked for.
//   - Messages of one lane are delivered one after another, in the order in which they were received. The next one goes
//     when the one before it has been worked on, or is a confirmed dead letter.
//   - A message that failed waits, and holds up its lane alone.
//   - Attempts before this flow count, but for the last: no message becomes a dead letter that this flow has not tried.
//   - Where acknowledgements are cumulative, a message is acknowledged only with all before it in its partition.
//   - When the flow drains, only what such acknowledgements wait for still begins. So nothing that was worked on comes
//     again after an orderly stop, unless a message before it has failed.
package flow

import (
	"errors"
	"slices"
	"time"
)

// Rules are what a flow goes by. They are not changed.
type Rules struct {
	InFlight int // most messages held, at least 1: see PerPartition
	Order    Order
	// PerPartition says that the source leaves out the partitions of [Flow.Full]. A partition with a message that
	// failed then has InFlight messages of its own, and takes none from the others.
	PerPartition bool
	Batch        int  // most messages of one delivery, at least 1
	Attempts     int  // at one message, those before this flow included, after which it fails for good; 0: no limit
	DeadLetters  bool // what fails for good becomes a dead letter; else the flow halts
	Cumulative   bool
	// Delay is how long to wait after so many failures in a row, from 1.
	Delay func(failures int) time.Duration
	// MaxDelay is the longest that a receiver may ask to wait: see [RetryAfter].
	MaxDelay time.Duration
}

// Order says which messages are delivered one after another.
type Order string

// Orders. The zero value is OrderKey.
const (
	OrderNone      Order = "none"
	OrderKey       Order = "key" // those of one key; messages without a key wait for no other
	OrderPartition Order = "partition"
)

// mostCalls is how many deliveries may be under way at once: as many connections are kept to one server, and with more
// each delivery would open one.
const mostCalls = 256

// calls is how many deliveries may be under way at once: with batches not each message needs one, and while it waits
// for its turn a batch fills.
func (r Rules) calls() int { return max(1, min(mostCalls, r.InFlight/r.Batch)) }

// before is how many of the attempts before count. One at least is left: brokers count what no one tried, too.
func (r Rules) before(attempts int) int {
	if r.Attempts > 0 {
		attempts = min(attempts, r.Attempts-1)
	}
	return max(0, attempts)
}

// over says that a message with such a past has had all its attempts.
func (r Rules) over(past Past) bool { return r.Attempts > 0 && past.Attempts() >= r.Attempts }

// isDeadLetter says that a message with such a past is to become a dead letter.
func (r Rules) isDeadLetter(past Past) bool {
	_, rejected := errors.AsType[rejectedError](past.Err)
	return r.DeadLetters && (rejected || r.over(past))
}

// delay is how long to wait after so many failures in a row, and an error.
func (r Rules) delay(failures int, err error) time.Duration {
	after, _ := errors.AsType[retryAfterError](err)
	return max(r.Delay(max(1, failures)), min(after.wait, r.MaxDelay))
}

// Flow holds the messages of one subscription. It belongs to one goroutine.
type Flow[M any] struct {
	rules    Rules
	window   window[M]
	failures failures[M]
	lanes    map[laneName]*lane[M] // those with messages, but for lanes of one message without a key
	ready    queue[*lane[M]]       // may be delivered from, at the latest when their pause is over
	pausing  []*lane[M]            // wait for their time, in order of it
	back     []*lane[M]            // of work that has just ended; empty between calls
	acks     []*Item[M]            // may be acknowledged
	trial    bool                  // a suspect is being delivered
	waiting  []*lane[M]            // ready, and their next is another suspect
	calls    int                   // deliveries and dead letters under way
	stopped  bool
	drains   bool // stopped, and what is owed still begins
	halted   *Item[M]
}

// New makes an empty flow.
func New[M any](rules Rules) *Flow[M] {
	return &Flow[M]{
		rules: rules, lanes: map[laneName]*lane[M]{},
		window: window[M]{limit: rules.InFlight, perPartition: rules.PerPartition, parts: map[string]*part[M]{}},
	}
}

// Free is how many more messages may be received, of partitions that are not full.
func (f *Flow[M]) Free() int {
	if f.stopped {
		return 0
	}
	return f.window.free()
}

// Full are the partitions of which no more messages may be received.
func (f *Flow[M]) Full() (names []string) { return f.window.full() }

// Received takes a message up. A message without a key has a nil one. past is what is known of it from an earlier flow.
func (f *Flow[M]) Received(message M, partition string, key []byte, past Past) {
	past.Before = f.rules.before(past.Before)
	item := &Item[M]{Message: message, Past: past, part: f.window.partOf(partition)}
	f.window.hold(item.part, 1)
	if past.Failures > 0 {
		f.failures.add(item, past.Failures)
		f.window.single(item)
		item.deadLetter = f.rules.isDeadLetter(past)
	}
	if f.rules.Cumulative {
		item.part.push(item)
	}
	item.lane = f.laneOf(partition, key)
	item.lane.waiting.push(item)
}

// laneOf is the lane of a message, a new one where there is none.
func (f *Flow[M]) laneOf(partition string, key []byte) *lane[M] {
	switch {
	case f.rules.Order == OrderPartition:
		key = []byte{}
	case key == nil, f.rules.Order == OrderNone:
		l := &lane[M]{alone: true}
		f.ready.push(l)
		return l
	}
	l := f.lanes[laneName{partition, string(key)}]
	if l == nil {
		l = &lane[M]{name: laneName{partition, string(key)}}
		f.lanes[l.name] = l
		f.ready.push(l)
	}
	return l
}

// Next is the work to begin now, and when to ask again even if nothing happens before; zero: not until then.
func (f *Flow[M]) Next(now time.Time) (work []Work[M], wake time.Time) {
	for len(f.pausing) > 0 && !f.pausing[0].due.After(now) {
		f.ready.push(f.pausing[0])
		f.pausing = f.pausing[1:]
	}
	for f.calls < f.rules.calls() && f.mayBegin() {
		work = append(work, f.take())
		f.calls++
	}
	if !f.stopped && len(f.pausing) > 0 {
		wake = f.pausing[0].due
	}
	return work, wake
}

// mayBegin says whether there is work to begin. After Drain it drops the lanes that nothing is owed of. Of suspects one
// is delivered at a time.
func (f *Flow[M]) mayBegin() bool {
	for f.ready.len() > 0 {
		next := f.ready.first().waiting.first()
		waits := f.trial && next.triable()
		if !waits && (!f.drains || next.owed) {
			break
		}
		if l := f.ready.pop(); waits {
			f.waiting = append(f.waiting, l)
		}
	}
	return f.ready.len() > 0 && (f.drains || !f.stopped)
}

// take gathers one delivery, from as many lanes as it may.
func (f *Flow[M]) take() Work[M] {
	var w Work[M]
	for len(w.Items) < f.rules.Batch && f.mayBegin() {
		l := f.ready.first()
		if next := l.waiting.first(); next.deadLetter || next.alone {
			if len(w.Items) > 0 {
				break // it goes alone
			}
			f.ready.pop()
			f.trial = f.trial || next.triable()
			return Work[M]{Items: []*Item[M]{l.begin()}, DeadLetter: next.deadLetter}
		}
		f.ready.pop()
		for len(w.Items) < f.rules.Batch && l.goesOn(f.stopped) {
			w.Items = append(w.Items, l.begin())
		}
	}
	return w
}

// Finished takes how work that was begun has ended: for each item an error, nil for success. Where all of several have
// failed, one may have failed the others: that counts for none, and each is delivered again by itself.
//
// Where all that was under way has failed [Together], each becomes a suspect, and that counts for none. Suspects are
// delivered one at a time, beside messages that are none. A failure together counts for the suspect then. So the
// message that ends its receiver is found, and nothing stands still while another suspect takes long.
func (f *Flow[M]) Finished(w Work[M], errs []error, now time.Time) {
	f.calls--
	if w.Items[0].suspect && !w.DeadLetter {
		f.trial = false
		f.ready.back(f.waiting)
		f.waiting = nil
	}
	counts := len(errs) == 1 || slices.Contains(errs, nil)
	for i, item := range w.Items {
		item.begun = false
		l := item.lane
		if !l.back {
			l.back = true
			f.back = append(f.back, l)
		}
		switch {
		case len(l.again) > 0:
			// One before it failed: what the receiver did with this one came too early.
			l.again = append(l.again, item)
		case errs[i] == nil:
			f.finish(item)
		default:
			_, together := errors.AsType[togetherError](errs[i])
			f.failed(item, errs[i], counts && !w.DeadLetter && (!together || item.suspect), now)
			l.again = append(l.again, item)
			f.window.single(item)
			item.suspect = item.suspect || together
		}
	}
	for _, l := range f.back {
		if len(l.again) > 0 {
			l.waiting.back(l.again)
		}
		l.again, l.back = nil, false
		f.requeue(l, now)
	}
	clear(f.back)
	f.back = f.back[:0]
}

// finish notes that a message was worked on, and what may be acknowledged for that.
func (f *Flow[M]) finish(item *Item[M]) {
	if item.done = true; item.Failures > 0 {
		f.failures.remove(item)
	}
	if item.alone {
		f.window.rejoin(item.part)
	}
	if !f.rules.Cumulative {
		f.acks = append(f.acks, item)
		return
	}
	for item.part.len() > 0 && item.part.first().done {
		f.acks = append(f.acks, item.part.pop())
	}
}

// failed notes a failure, and whether it counts. A dead letter that could not be published is tried again for ever, and
// keeps its reason. After Drain or Stop a failure does not count: the stop may be its cause.
func (f *Flow[M]) failed(item *Item[M], err error, counts bool, now time.Time) {
	if !counts || f.stopped {
		item.owed = false
		item.lane.due = now.Add(f.rules.delay(item.Failures, err))
		return
	}
	item.Failures++
	item.Err = err
	f.failures.add(item, 1)
	item.lane.due = now.Add(f.rules.delay(item.Failures, err))
	switch {
	case f.rules.isDeadLetter(item.Past):
		item.deadLetter, item.lane.due = true, now
	case !f.rules.DeadLetters && f.rules.over(item.Past):
		f.halted, f.stopped = item, true
	}
}

// requeue puts a lane where it belongs after its work has ended.
func (f *Flow[M]) requeue(l *lane[M], now time.Time) {
	switch {
	case l.waiting.len() == 0:
		if !l.alone {
			delete(f.lanes, l.name)
		}
	case l.due.After(now):
		i, _ := slices.BinarySearchFunc(f.pausing, l.due,
			func(l *lane[M], due time.Time) int { return l.due.Compare(due) })
		f.pausing = slices.Insert(f.pausing, i, l)
	default:
		f.ready.push(l)
	}
}

// Acks are the messages that may be acknowledged now, in order. Each is given once; call Acked when that is done.
func (f *Flow[M]) Acks() []*Item[M] {
	acks := f.acks
	f.acks = nil
	return acks
}

// Gathers says that acknowledgements lose nothing by waiting for a few more: deliveries are under way, and nothing
// waits for another to end.
func (f *Flow[M]) Gathers() bool { return f.calls > 0 && (f.ready.len() > 0 || f.Free() > 0) }

// Acked says that messages have been acknowledged.
func (f *Flow[M]) Acked(items []*Item[M]) {
	for _, item := range items {
		f.window.hold(item.part, -1)
	}
}

// Drain lets no more work begin, but for messages that never failed and without which others that are worked on cannot
// be acknowledged. No more failures count.
func (f *Flow[M]) Drain() {
	if f.stopped {
		return
	}
	f.stopped, f.drains = true, true
	for _, p := range f.window.parts {
		p.drain()
	}
}

// Stop lets no more work begin, and no more failures count.
func (f *Flow[M]) Stop() { f.stopped, f.drains = true, false }

// Busy says that work is under way.
func (f *Flow[M]) Busy() bool { return f.calls > 0 }

// Unacknowledged says that messages wait for Acks to give them.
func (f *Flow[M]) Unacknowledged() bool { return len(f.acks) > 0 }

// Halted is the message that ended the flow: it failed for good, and there are no dead letters. Nil: none has.
func (f *Flow[M]) Halted() *Item[M] { return f.halted }
