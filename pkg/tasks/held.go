package tasks

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// held is a task whose key is held here. While the task waits it is all that there is of it.
type held struct {
	key    elect.Key
	hold   Hold
	ended  func(error)
	given  *Task // what Run was called with; nil: the task as it is declared
	cancel runCancel

	// The rest belongs to the loop.
	job     *job
	run     *taskRuns // what it runs with; nil while it waits for a tick
	wakeups wakeups[*held]
	load    meter
}

func newHeld(hold Hold, given *Task, ended func(error)) *held {
	h := &held{key: hold.Key(), hold: hold, ended: ended, given: given}
	h.wakeups = wakeupsOf(h)
	return h
}

// runCancel ends the run that goes on, at once: that must not wait for the loop.
type runCancel struct {
	mu      sync.Mutex
	stopped error // nothing may be run any more
	cancel  context.CancelCauseFunc
}

// context is that of a run. Call done when the run has ended.
func (r *runCancel) context() (ctx context.Context, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	if r.cancel = cancel; r.stopped != nil {
		cancel(r.stopped)
	}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancel = nil
		cancel(nil)
	}
}

// cut ends the run that goes on.
func (r *runCancel) cut(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel(cause)
	}
}

// stop ends the run that goes on, and lets none begin after it.
func (r *runCancel) stop(cause error) {
	r.mu.Lock()
	if r.stopped == nil {
		r.stopped = cause
	}
	r.mu.Unlock()
	r.cut(cause)
}

// maxSleep bounds each wait for a tick: the wall clock may be set meanwhile, which timers do not see.
const maxSleep = time.Minute

// timers are the next times of all that wait: ticks by the wall clock, the ends of pauses by the steady one. What
// waits costs an entry in one of the two heaps, and no more.
type timers[T any] struct{ byWall, bySteady timerHeap[T] }

// wakeups are the entries of one that may wait.
type wakeups[T any] struct{ tick, retry alarm[T] }

// alarm is one time at which its owner is to be woken.
type alarm[T any] struct {
	at    time.Time
	owner T
	index int // in its heap; -1: in none
}

func wakeupsOf[T any](owner T) wakeups[T] {
	return wakeups[T]{tick: alarm[T]{owner: owner, index: -1}, retry: alarm[T]{owner: owner, index: -1}}
}

// set notes when the owner of the wakeups is to be woken, by each clock; the zero time is never.
func (t *timers[T]) set(of *wakeups[T], tick, retry time.Time) {
	t.byWall.set(&of.tick, tick)
	t.bySteady.set(&of.retry, retry)
}

// due returns the first owner whose time has come, and forgets that time; false: none.
func (t *timers[T]) due(now moment) (owner T, ok bool) {
	if owner, ok = t.byWall.pop(now.wall); ok {
		return owner, true
	}
	return t.bySteady.pop(now.steady)
}

// wait is how long until the first of the times; false: there is none.
func (t *timers[T]) wait(now moment) (d time.Duration, ok bool) {
	d = maxSleep
	if len(t.byWall) > 0 {
		d = min(d, t.byWall[0].at.Sub(now.wall))
	}
	if len(t.bySteady) > 0 {
		d = min(d, t.bySteady[0].at.Sub(now.steady))
	}
	return max(0, d), len(t.byWall)+len(t.bySteady) > 0
}

// timerHeap implements [heap.Interface]: the first time is on top.
type timerHeap[T any] []*alarm[T]

func (h *timerHeap[T]) set(t *alarm[T], at time.Time) {
	switch known := t.index >= 0; {
	case at.IsZero() && known:
		heap.Remove(h, t.index)
	case at.IsZero(), known && at.Equal(t.at):
	case known:
		t.at = at
		heap.Fix(h, t.index)
	default:
		t.at = at
		heap.Push(h, t)
	}
}

func (h *timerHeap[T]) pop(now time.Time) (owner T, ok bool) {
	if len(*h) == 0 || now.Before((*h)[0].at) {
		return owner, false
	}
	return heap.Pop(h).(*alarm[T]).owner, true //nolint:forcetypeassert // nothing else is in it
}

func (h timerHeap[T]) Len() int           { return len(h) }
func (h timerHeap[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h timerHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *timerHeap[T]) Push(x any) {
	t := x.(*alarm[T]) //nolint:forcetypeassert // nothing else is pushed
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements [heap.Interface].
func (h *timerHeap[T]) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
