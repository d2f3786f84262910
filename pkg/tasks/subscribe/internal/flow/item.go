package flow

import "time"

// Past is how deliveries of a message have ended.
type Past struct {
	Failures int   // deliveries that failed, in a row
	Err      error // of the last of them
}

// Item is one message that is held.
type Item[M any] struct {
	Message M
	Past

	lane *lane[M]
	part *part[M] // where acknowledgements are cumulative
	done bool     // worked on, or a confirmed dead letter
	bury bool     // its attempts are over: it is to become a dead letter
}

// Work is what is to be begun at once. Each is answered by one call of Finished.
type Work[M any] struct {
	Items  []*Item[M] // in the order of receipt
	Letter bool       // the one item is to become a dead letter
}

// lane is what order is kept within.
type lane[M any] struct {
	name    string
	waiting queue[*Item[M]]
	busy    bool      // some of its messages are being delivered
	due     time.Time // not before then; zero: at once
}

// part is a partition: its messages that are held, in order of receipt.
type part[M any] struct {
	name string
	queue[*Item[M]]
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
