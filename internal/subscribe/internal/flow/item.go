package flow

import "time"

// Past is how deliveries of a message have ended.
type Past struct {
	Before   int   // attempts before this run, as far as the source knows them
	Failures int   // deliveries of this run that failed, in a row
	Err      error // of the last of them
}

// Attempts is how often it was tried in all.
func (p Past) Attempts() int { return p.Before + p.Failures }

// Item is one message that is held.
type Item[M any] struct {
	Message M
	Past

	lane       *lane[M]
	part       *part[M]
	begun      bool // being delivered, as a dead letter or not
	done       bool // worked on, or a confirmed dead letter
	deadLetter bool // its attempts are over: it is to become a dead letter
	alone      bool // its last delivery failed: it goes without others, which it may have failed for
	// suspect says that its receiver failed as a whole once while it had this message: see [Together].
	suspect bool
	owed    bool // work may still begin after Drain: others cannot be acknowledged without it
}

// Over says that it is to become a dead letter.
func (i *Item[M]) Over() bool { return i.deadLetter }

// triable says whether its next delivery is that of a suspect.
func (i *Item[M]) triable() bool { return i.suspect && !i.deadLetter }

// Together marks the error of a delivery that has failed with all others under way, such as the end of the process that
// had them. One of them may have been the reason.
func Together(err error) error { return togetherError{err} }

type togetherError struct{ error }

func (e togetherError) Unwrap() error { return e.error }

// Rejected marks the error of a delivery whose receiver will never take the message. Where there are dead letters it
// becomes one at once.
func Rejected(err error) error { return rejectedError{err} }

type rejectedError struct{ error }

func (e rejectedError) Unwrap() error { return e.error }

// RetryAfter marks the error of a delivery whose receiver asks to wait so long. That is done, up to [Rules.MaxDelay].
func RetryAfter(err error, wait time.Duration) error { return retryAfterError{err, wait} }

type retryAfterError struct {
	error
	wait time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// Work is what is to be begun at once. Each is answered by one call of Finished.
type Work[M any] struct {
	Items      []*Item[M] // in the order of receipt
	DeadLetter bool       // the one item is to become a dead letter
}

// lane is what order is kept within.
type lane[M any] struct {
	name    laneName
	alone   bool // it has one message without a key, and no name
	waiting queue[*Item[M]]
	due     time.Time  // not before then; zero: at once
	again   []*Item[M] // of the work that has just ended, those that are to be delivered again
	back    bool       // some of that work is of this lane
}

// laneName is a partition, and a key of it. With [OrderPartition] the key does not count.
type laneName struct{ partition, key string }

// begin takes the first message out.
func (l *lane[M]) begin() *Item[M] {
	item := l.waiting.pop()
	item.begun = true
	return item
}

// goesOn says whether the next message may go with the one before it.
func (l *lane[M]) goesOn(stopped bool) bool {
	if l.waiting.len() == 0 {
		return false
	}
	next := l.waiting.first()
	return !next.deadLetter && !next.alone && (next.owed || !stopped)
}

// part is a partition with messages that are held.
type part[M any] struct {
	name            string
	queue[*Item[M]]      // where acknowledgements are cumulative, in order of receipt, until they are given
	held            int  // messages that are not acknowledged
	failing         int  // of them, those that failed and are not done
	apart           bool // counts by itself: see [Rules.PerPartition]
}

// drain marks the messages that stand before the last one that has begun.
func (p *part[M]) drain() {
	begun := false
	for i := len(p.items) - 1; i >= p.head; i-- {
		item := p.items[i]
		item.owed = begun && !item.begun && !item.done && !item.alone
		begun = begun || item.begun || item.done
	}
}

// queue is a list that is taken from at the front, without a copy at each.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) first() T { return q.items[q.head] }

func (q *queue[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head > 64 && 2*q.head > len(q.items):
		q.items, q.head = append(q.items[:0], q.items[q.head:]...), 0
	}
	return v
}

// back puts items in front of all others.
func (q *queue[T]) back(items []T) {
	rest := q.items[q.head:]
	q.items, q.head = append(append(make([]T, 0, len(items)+len(rest)), items...), rest...), 0
}
