// Package frugal keeps the memory of a process small while it rests, and lets it use more while it works.
//
// A process that rests gains from collecting garbage early: it computes little, and there may be many on a machine.
// One that works through a topic would collect a hundred times a second so, and spend a third of its time on that.
package frugal

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// How much garbage there may be, in percent of the memory in use.
const (
	resting = 25
	working = 100 // Go's own
)

// How work and rest are distinguished.
const (
	mostResting = 4               // collections within a second, at most, while a process rests
	lookEvery   = 5 * time.Second // how often a process that works is looked at
	mostLeast   = 1               // collections between two looks, at most, when it rests again
)

// Rest gives back what reading the configuration took, and has garbage collected early from now on. A GOGC in the
// environment holds as it is.
func Rest() {
	if !chosen() {
		debug.SetGCPercent(resting)
	}
	debug.FreeOSMemory()
}

func chosen() bool { return os.Getenv("GOGC") != "" }

// Adapt is Rest, and then lets the process use as much memory as any other while it works. Stop ends that, and has
// garbage collected early again.
func Adapt() (stop func()) {
	Rest()
	if chosen() {
		return func() {}
	}
	a := &adapter{every: lookEvery}
	a.watch()
	return a.stop
}

// adapter changes the percentage of this process, after each collection and at looks. It may be used concurrently.
type adapter struct {
	every time.Duration

	mu      sync.Mutex
	recent  recent
	looks   *time.Timer // nil: the process rests
	since   int         // collections since the last look
	stopped bool
}

// mark becomes garbage at once, and is cleaned up after the next collection. With a pointer in it, it shares its memory
// with nothing that lives on.
type mark struct{ self *mark }

// watch has collected called after the next collection. At rest that costs nothing.
func (a *adapter) watch() {
	m := &mark{}
	m.self = m
	runtime.AddCleanup(m, (*adapter).collected, a)
}

// collected takes note of a collection.
func (a *adapter) collected() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	defer a.watch()
	a.since++
	if often := a.recent.add(time.Now()); often && a.looks == nil {
		debug.SetGCPercent(working)
		a.since = 0
		a.looks = time.AfterFunc(a.every, a.look)
	}
}

// look ends the work when there was hardly a collection since the last look.
func (a *adapter) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looks == nil {
		return
	}
	if a.since > mostLeast {
		a.since = 0
		a.looks.Reset(a.every)
		return
	}
	a.rest()
	debug.FreeOSMemory()
}

func (a *adapter) rest() {
	a.looks, a.recent = nil, recent{}
	debug.SetGCPercent(resting)
}

func (a *adapter) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.looks != nil {
		a.looks.Stop()
		a.rest()
	}
}

// recent are the times of the last collections.
type recent struct {
	times [mostResting]time.Time
	next  int
}

// add notes a collection, and says whether there were more than mostResting within a second.
func (r *recent) add(now time.Time) (often bool) {
	oldest := r.times[r.next]
	r.times[r.next] = now
	r.next = (r.next + 1) % len(r.times)
	return !oldest.IsZero() && now.Sub(oldest) <= time.Second
}
