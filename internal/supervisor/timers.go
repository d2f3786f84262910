package supervisor

import (
	"container/heap"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/supervisor/job"
)

// maxSleep bounds each wait for a tick: the wall clock may be set meanwhile, which timers do not see.
const maxSleep = time.Minute

// timers are the next times of all that wait: ticks by the wall clock, the ends of pauses by the steady one. What
// waits costs an entry in one of the two heaps, and no more.
type timers[T any] struct{ byWall, bySteady timerHeap[T] }

// set notes when the owner of the wakeups is to be woken, by each clock; the zero time is never.
func (t *timers[T]) set(of *wakeups[T], tick, retry time.Time) {
	t.byWall.set(&of.tick, tick)
	t.bySteady.set(&of.retry, retry)
}

// due returns the first owner whose time has come, and forgets that time; false: none.
func (t *timers[T]) due(now job.Moment) (owner T, ok bool) {
	if owner, ok = t.byWall.pop(now.Wall); ok {
		return owner, true
	}
	return t.bySteady.pop(now.Steady)
}

// wait is how long until the first of the times; false: there is none.
func (t *timers[T]) wait(now job.Moment) (d time.Duration, ok bool) {
	d = maxSleep
	if len(t.byWall) > 0 {
		d = min(d, t.byWall[0].at.Sub(now.Wall))
	}
	if len(t.bySteady) > 0 {
		d = min(d, t.bySteady[0].at.Sub(now.Steady))
	}
	return max(0, d), len(t.byWall)+len(t.bySteady) > 0
}

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

// readClocks reads both clocks.
func readClocks() job.Moment { return job.Moment{Wall: clock.Wall(), Steady: time.Now()} }
