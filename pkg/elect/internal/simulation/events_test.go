package simulation

import "time"

// event is something that happens at a moment. One that belongs to a process does not happen once that has died, and
// waits while it is frozen.
type event struct {
	at   time.Duration
	seq  uint64 // of two at the same moment the one that was asked for first goes first
	of   *replica
	life int
	do   func()
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// queue is a heap of events with four children each: flatter than two, and most events are near.
type queue struct {
	heap []event
	seq  uint64
	done uint64 // events that have happened
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = e
}

func (q *queue) pop() event {
	first := q.heap[0]
	n := len(q.heap) - 1
	e := q.heap[n]
	q.heap[n] = event{}
	q.heap = q.heap[:n]
	if n > 0 {
		q.sink(e)
	}
	return first
}

// sink puts e into the place that is free at the top.
func (q *queue) sink(e event) {
	n, i := len(q.heap), 0
	for {
		least := 4*i + 1
		if least >= n {
			break
		}
		for c := least + 1; c < min(4*i+5, n); c++ {
			if q.heap[c].before(&q.heap[least]) {
				least = c
			}
		}
		if !q.heap[least].before(&e) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = e
}
