package tasks

import (
	"container/heap"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// now reads both clocks.
func now() moment { return moment{wall: wallclock.Now(), steady: time.Now()} }

// maxSleep bounds each wait for a tick: the wall clock may be set meanwhile, which timers do not see.
const maxSleep = time.Minute

// timers are the next times of all tasks that wait: ticks by the wall clock, the ends of pauses by the steady one. A
// task that waits costs an entry in one of the two heaps, and no more.
type timers struct{ ticks, retries timerHeap }

// timer is one time at which a task is to be looked at.
type timer struct {
	at    time.Time
	task  *held
	index int // in its heap; -1: in none
}

// set notes when the task is to be woken, by each clock; the zero time is never.
func (t *timers) set(task *held, tick, retry time.Time) {
	t.ticks.set(&task.tick, tick)
	t.retries.set(&task.retry, retry)
}

// due returns the first task whose time has come, and forgets that time; nil: none.
func (t *timers) due(now moment) *held {
	if task := t.ticks.pop(now.wall); task != nil {
		return task
	}
	return t.retries.pop(now.steady)
}

// wait is how long until the first of the times; false: there is none.
func (t *timers) wait(now moment) (d time.Duration, ok bool) {
	d = maxSleep
	if len(t.ticks) > 0 {
		d = min(d, t.ticks[0].at.Sub(now.wall))
	}
	if len(t.retries) > 0 {
		d = min(d, t.retries[0].at.Sub(now.steady))
	}
	return max(0, d), len(t.ticks)+len(t.retries) > 0
}

// timerHeap implements [heap.Interface]: the first time is on top.
type timerHeap []*timer

func (h *timerHeap) set(t *timer, at time.Time) {
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

func (h *timerHeap) pop(now time.Time) *held {
	if len(*h) == 0 || now.Before((*h)[0].at) {
		return nil
	}
	return heap.Pop(h).(*timer).task //nolint:forcetypeassert // nothing else is in it
}

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *timerHeap) Push(x any) {
	t := x.(*timer) //nolint:forcetypeassert // nothing else is pushed
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements [heap.Interface].
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
