package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// A process that rests gains from collecting garbage early: it computes little, and there may be many on a machine. One
// that works through a topic would collect a hundred times a second so, and spend a third of its time on that.

// How much garbage there may be, in percent of the memory in use.
const (
	gcAtRest = 10
	gcAtWork = 100 // Go's own
)

// How work and rest are distinguished.
const (
	mostRestingGCs = 4               // collections within a second, at most, while a process rests
	gcLookEvery    = 5 * time.Second // how often a process that works is looked at
	mostIdleGCs    = 1               // collections between two looks, at most, when it rests again
)

// collectEarly gives back what reading the configuration took, and has garbage collected early from now on. A GOGC in
// the environment holds as it is.
func collectEarly() {
	if !gcChosen() {
		debug.SetGCPercent(gcAtRest)
	}
	giveBack()
}

// giveBack returns memory to the system that is not used now: of the heap, and pages of the program's file.
func giveBack() {
	debug.FreeOSMemory()
	process.ReleaseProgramPages()
}

func gcChosen() bool { return os.Getenv("GOGC") != "" }

// adaptGC is collectEarly, and then lets the process use as much memory as any other while it works.
func adaptGC() *gcAdapter {
	collectEarly()
	a := &gcAdapter{every: gcLookEvery, stopped: gcChosen()}
	if !a.stopped {
		a.watch()
	}
	return a
}

// gcAdapter changes the percentage of this process, after each collection and at looks, until it is stopped. It may be
// used concurrently.
type gcAdapter struct {
	every time.Duration

	mu      sync.Mutex
	recent  recentGCs
	percent int         // while the process works
	looks   *time.Timer // nil: the process rests
	since   int         // collections since the last look
	stopped bool
}

// gcMark becomes garbage at once, and is cleaned up after the next collection. With a pointer in it, it shares its
// memory with nothing that lives on.
type gcMark struct{ self *gcMark }

// watch has collected called after the next collection. At rest that costs nothing.
func (a *gcAdapter) watch() {
	m := &gcMark{}
	m.self = m
	runtime.AddCleanup(m, (*gcAdapter).collected, a)
}

// collected takes note of a collection. While they are too many, each step allows three times as much garbage: what is
// to be collected in a second may be little more than what a process that rests may keep.
func (a *gcAdapter) collected() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	defer a.watch()
	a.since++
	if often := a.recent.add(time.Now()); !often || a.percent == gcAtWork {
		return
	}
	a.percent = min(3*max(a.percent, gcAtRest), gcAtWork)
	debug.SetGCPercent(a.percent)
	a.since, a.recent = 0, recentGCs{}
	if a.looks == nil {
		a.looks = time.AfterFunc(a.every, a.look)
	}
}

// look ends the work when there was hardly a collection since the last look.
func (a *gcAdapter) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looks == nil {
		return
	}
	if a.since > mostIdleGCs {
		a.since = 0
		a.looks.Reset(a.every)
		return
	}
	a.rest()
	giveBack()
}

func (a *gcAdapter) rest() {
	a.looks, a.percent, a.recent = nil, 0, recentGCs{}
	debug.SetGCPercent(gcAtRest)
}

// started ends the work that a start is, and gives back what it took.
func (a *gcAdapter) started() {
	a.end(false)
	giveBack()
}

// stop has garbage collected early from now on.
func (a *gcAdapter) stop() { a.end(true) }

func (a *gcAdapter) end(stop bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = a.stopped || stop
	if a.looks != nil {
		a.looks.Stop()
		a.rest()
	}
}

// recentGCs are the times of the last collections.
type recentGCs struct {
	times [mostRestingGCs]time.Time
	next  int
}

// add notes a collection, and says whether there were more than mostRestingGCs within a second.
func (r *recentGCs) add(now time.Time) (often bool) {
	oldest := r.times[r.next]
	r.times[r.next] = now
	r.next = (r.next + 1) % len(r.times)
	return !oldest.IsZero() && now.Sub(oldest) <= time.Second
}

// trimRests are how long nothing starts any more before memory is given back: soon, and again when the last statuses
// are written.
var trimRests = [...]time.Duration{time.Second, 10 * time.Second}

// trim gives memory back to the system after the start, and after each reload. Reading a long list, and starting all
// of its tasks, takes far more than keeping them. Go itself gives it back too slowly for a replica that then rests.
func (w *workerProcess) trim(ctx context.Context) {
	for {
		for _, rest := range trimRests {
			if !w.untilSettled(ctx, rest) {
				return
			}
			w.gc.started()
		}
		if !pause(ctx, w.applied) {
			return
		}
	}
}

// untilSettled waits until the replica is settled, and still is after a rest; false: ctx has ended before.
func (w *workerProcess) untilSettled(ctx context.Context, rest time.Duration) bool {
	board := w.replica.Board()
	for {
		for changed := board.Changed(); !settled(board.Snapshot()); changed = board.Changed() {
			if !pause(ctx, changed) {
				return false
			}
		}
		if sleep.For(ctx, rest) != nil {
			return false
		}
		if settled(board.Snapshot()) {
			return true
		}
	}
}

// settled says whether the replica takes part, and no task is about to start anywhere.
func settled(s *snapshot.Cluster) bool {
	return s.Status.Ready && !slices.ContainsFunc(s.Status.Groups, func(g api.Group) bool { return g.Starting > 0 })
}

// pause waits for an event; false: ctx has ended before.
func pause[T any](ctx context.Context, event <-chan T) bool {
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}
