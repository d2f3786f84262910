package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// localMutex is one mutex that this process uses.
type localMutex struct {
	id     string
	m      protocol.Mutex
	idle   bool          // nothing of it is used here; it is kept for the next call
	seq    int64         // of the write that change is
	change driver.Change // as sent last: a repeat is the very same
	timer  mutexTimer
	// Why the last write and the last read were not answered; nil: they were.
	unwritten, unread error
}

// localMutexes are the mutexes that this process uses or has used lately. Its exported methods are questions: they
// change nothing.
type localMutexes struct {
	byID map[string]*localMutex
	used int // those that are not idle: this process holds, waits or has something under way
}

// add adds a mutex that is about to be used.
func (l *localMutexes) add(x *localMutex) {
	l.byID[x.id] = x
	l.used++
}

// stepped takes note of what an event made of a mutex.
func (l *localMutexes) stepped(x *localMutex) {
	idle := x.m.Idle()
	switch {
	case idle == x.idle:
		return
	case idle:
		l.used--
	default:
		l.used++
	}
	x.idle = idle
}

// idle is how many are kept for the next call.
func (l *localMutexes) idle() int { return len(l.byID) - l.used }

// sorted are all of them in the order of their ids.
func (l *localMutexes) sorted() []*localMutex {
	return sortMutexes(slices.Collect(maps.Values(l.byID)))
}

// verifying says whether one is not compared yet with another lineage.
func (l *localMutexes) verifying() bool {
	for _, x := range l.byID {
		if x.m.Verifying {
			return true
		}
	}
	return false
}

// Behind says whether the store has shown, since a call asked, that others are before it.
func (l *localMutexes) Behind(id, claim string) bool {
	x := l.byID[id]
	return x != nil && x.m.Behind(claim)
}

// trouble is the last error of the store that keeps calls for a mutex waiting; nil once there is an answer.
func (l *localMutexes) trouble(id string) error {
	if x := l.byID[id]; x != nil {
		return cmp.Or(x.unwritten, x.unread)
	}
	return nil
}

// How long a mutex that a call waits for is not looked at when nothing is heard of it. Where the store notifies, looks
// are only for notifications that were lost.
const (
	firstMutexRead    = 50 * time.Millisecond
	maxMutexReadPause = time.Second
	mutexReadGap      = 2 * time.Second
)

// keepIdleMutex is how long an unused mutex is kept.
const keepIdleMutex = 10 * time.Second

// mutexTimers are the mutexes that time alone may change.
type mutexTimers struct {
	retry    time.Duration // before what was not answered is sent again
	watching bool          // the store notifies
	timed    map[string]*localMutex
}

// mutexTimer is when time alone changes a mutex.
type mutexTimer struct {
	due      protocol.Instant // the first of all
	retrying bool             // at retry what was not answered is sent again
	retry    protocol.Instant
	looking  bool // at look it is read, since a call waits
	look     protocol.Instant
	pause    time.Duration // before the look after that, where the store does not notify
}

// schedule notes when time alone may change the mutex.
func (t *mutexTimers) schedule(x *localMutex, m protocol.Moment) {
	timer := &x.timer
	under := x.m.Reading || x.m.Write.Sent
	unanswered := x.m.Write.Under || x.m.Unread || x.m.Verifying || x.m.Backoff.Pause
	switch retry := !under && unanswered; {
	case retry && !timer.retrying:
		timer.retrying, timer.retry = true, m.Now.Add(t.retry)
	case !retry:
		timer.retrying = false
	}
	switch waits := x.waits(); {
	case waits && !timer.looking:
		timer.looking, timer.pause = true, firstMutexRead
		timer.look = m.Now.Add(t.nextLook(timer))
	case !waits:
		timer.looking = false
	}
	wait, timed := x.m.Due(m)
	at := func(when protocol.Instant) {
		if d := -m.Now.HolderElapsed(when); !timed || d < wait {
			wait, timed = max(d, 0), true
		}
	}
	if timer.retrying {
		at(timer.retry)
	}
	if timer.looking && !under && !unanswered { // else what is repeated comes first, and not before its time
		at(timer.look)
	}
	if x.idle {
		at(m.Now.Add(keepIdleMutex))
	}
	timer.due = m.Now.Add(wait)
	if timed {
		t.timed[x.id] = x
	} else {
		delete(t.timed, x.id)
	}
}

func (t *mutexTimers) nextLook(timer *mutexTimer) time.Duration {
	if t.watching {
		return mutexReadGap
	}
	d := timer.pause
	timer.pause = min(2*timer.pause, maxMutexReadPause)
	return d
}

// waits says whether a call of this process waits.
func (x *localMutex) waits() bool {
	return slices.ContainsFunc(x.m.Calls, func(c protocol.MutexCall) bool { return c.Phase == protocol.CallWaiting })
}

// due are those whose time has come, in order. A tick sorts only them: most of the time there is none.
func (t *mutexTimers) due(now protocol.Instant) []*localMutex {
	var due []*localMutex
	for _, x := range t.timed {
		if now.Reached(x.timer.due, 0) {
			due = append(due, x)
		}
	}
	return sortMutexes(due)
}

// wait is how long nothing happens by time alone; false: nothing ever does.
func (t *mutexTimers) wait(now protocol.Instant) (wait time.Duration, ok bool) {
	for _, x := range t.timed {
		if d := max(0, -now.HolderElapsed(x.timer.due)); !ok || d < wait {
			wait, ok = d, true
		}
	}
	return wait, ok
}

// sortMutexes sorts mutexes by their ids.
func sortMutexes(list []*localMutex) []*localMutex {
	slices.SortFunc(list, func(a, b *localMutex) int { return strings.Compare(a.id, b.id) })
	return list
}
