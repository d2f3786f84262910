package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// play is what happens to one lock: calls of some processes with options of all kinds, a store that hiccups, and
// processes that close. All times are seconds from its beginning.
type play struct {
	kind    string // mutex, semaphore or rw
	calls   []lockCall
	hiccups []hiccup
	closes  map[string]int // processes
}

// lockCall is one call.
type lockCall struct {
	process  string
	at, hold int    // it is unlocked so long after it was granted
	how      string // lock, try or within
	shared   bool
	unfair   bool
	owner    string // re-entrant
	maxHold  int
	atLeast  int
	detach   int // in place of Unlock, for so long
}

// hiccup is a time in which calls of a process to the store go wrong.
type hiccup struct {
	process  string
	at, ends int
	fault    memory.Fault
}

const (
	playTime = 40  // seconds in which things begin
	restTime = 300 // and then all that waits has its turn
	within   = 6 * time.Second
)

func (c lockCall) String() string {
	text := fmt.Sprintf("%2d %s: %s", c.at, c.process, c.how)
	for what, is := range map[string]bool{
		" shared": c.shared, " unfair": c.unfair, " of " + c.owner: c.owner != "",
		fmt.Sprint(" maxHold ", c.maxHold): c.maxHold > 0, fmt.Sprint(" atLeast ", c.atLeast): c.atLeast > 0,
		fmt.Sprint(", detached for ", c.detach): c.detach > 0,
	} {
		if is {
			text += what
		}
	}
	return fmt.Sprintf("%s, held for %d", text, c.hold)
}

func drawPlay(t *rapid.T) play {
	process := rapid.SampledFrom([]string{"a", "b", "c"})
	second := rapid.IntRange(0, playTime)
	p := play{kind: rapid.SampledFrom([]string{"mutex", "semaphore", "rw"}).Draw(t, "kind"), closes: map[string]int{}}
	for range rapid.IntRange(2, 8).Draw(t, "calls") {
		c := lockCall{
			process: process.Draw(t, "process"), at: second.Draw(t, "at"), hold: rapid.IntRange(0, 12).Draw(t, "hold"),
			how:     rapid.SampledFrom([]string{"lock", "try", "within"}).Draw(t, "how"),
			unfair:  rapid.Bool().Draw(t, "unfair"),
			owner:   rapid.SampledFrom([]string{"", "", "o", "p"}).Draw(t, "owner"),
			maxHold: rapid.SampledFrom([]int{0, 0, 2, 5}).Draw(t, "maxHold"),
		}
		c.shared = p.kind == "rw" && rapid.Bool().Draw(t, "shared")
		if p.kind != "semaphore" && !c.shared {
			c.atLeast = rapid.SampledFrom([]int{0, 0, 3, 9}).Draw(t, "atLeast")
			c.detach = rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "detach")
		}
		p.calls = append(p.calls, c)
	}
	for range rapid.IntRange(0, 2).Draw(t, "hiccups") {
		h := hiccup{process: process.Draw(t, "whose"), at: second.Draw(t, "begins")}
		h.ends = h.at + rapid.IntRange(1, 15).Draw(t, "for")
		h.fault = rapid.SampledFrom([]memory.Fault{
			memory.Hang, memory.LoseRequest, memory.LoseAnswer,
		}).Draw(t, "fault")
		p.hiccups = append(p.hiccups, h)
	}
	for range rapid.IntRange(0, 1).Draw(t, "closes") {
		p.closes[process.Draw(t, "closing")] = second.Draw(t, "closed at")
	}
	return p
}

// judge knows who holds the lock.
type judge struct {
	mu      sync.Mutex
	began   time.Time
	kind    string
	holds   map[*mutex.Held]lockCall
	keeps   time.Time // no one may enter before
	slack   time.Duration
	token   int64 // the largest of one who was alone
	closed  map[string]time.Time
	failing map[string]bool // processes whose store fails at times
	second  time.Duration
	asked   map[string]int // the store within the second, by process
	wrong   []string
	events  []string
}

func (j *judge) say(format string, args ...any) {
	j.events = append(j.events, fmt.Sprintf("%5.1f ", time.Since(j.began).Seconds())+fmt.Sprintf(format, args...))
}

func (j *judge) breaks(format string, args ...any) {
	j.say(format, args...)
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

func (j *judge) alone(c lockCall) bool { return j.kind != "semaphore" && !c.shared }

// enters is a call that was granted.
func (j *judge) enters(h *mutex.Held, c lockCall) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.say("granted to %v under %d", c, h.Token())
	if h.Context().Err() != nil {
		return
	}
	// By token, so that what a re-entrant owner holds counts once.
	others, excluding, again := map[int64]bool{}, j.alone(c), false
	for other, is := range j.holds {
		switch {
		case !j.inside(other, is):
		case is.owner != "" && is.owner == c.owner && is.process == c.process:
			again = true
		default:
			others[other.Token()] = true
			excluding = excluding || j.alone(is)
		}
	}
	if excluding && len(others) > 0 || j.kind == "semaphore" && len(others) > 1 {
		j.breaks("%v holds it beside %d others", c, len(others))
	}
	if !again {
		if j.alone(c) && h.Token() <= j.token {
			j.breaks("%v got token %d after %d", c, h.Token(), j.token)
		}
		if early := time.Until(j.keeps); early > j.slack {
			j.breaks("%v enters %v too early", c, early)
		}
		if c.atLeast > 0 {
			j.keep(time.UnixMilli(h.Token()).Add(time.Duration(c.atLeast) * time.Second))
		}
	}
	if j.alone(c) {
		j.token = max(j.token, h.Token())
	}
	j.holds[h] = c
}

// inside says whether one who got the lock may not have been left alone yet. Whose store never failed keeps it until it
// is unlocked, and after a Close for 0.9 of the lease at most.
func (j *judge) inside(h *mutex.Held, c lockCall) bool {
	closed, closes := j.closed[c.process]
	switch {
	case h.Context().Err() == nil:
		return true
	case j.failing[c.process] || errors.Is(context.Cause(h.Context()), mutex.ErrLost):
		return false
	default:
		return !closes || time.Since(closed) < lease*9/10-j.slack
	}
}

func (j *judge) leaves(h *mutex.Held) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.holds, h)
}

// keep has others stay out until then.
func (j *judge) keep(until time.Time) {
	if until.After(j.keeps) {
		j.keeps = until
	}
}

// allowed are the errors that a call may end with.
var allowed = []error{
	mutex.ErrLocked, mutex.ErrClosed, mutex.ErrLost, mutex.ErrMaxHold, mutex.ErrUpgrade, mutex.ErrShared,
	elect.ErrUnavailable, elect.ErrReleased, context.DeadlineExceeded, context.Canceled,
}

func (j *judge) ended(what string, c lockCall, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.say("%s of %v: %v", what, c, err)
	if err == nil {
		return
	}
	for _, may := range allowed {
		if errors.Is(err, may) {
			return
		}
	}
	j.breaks("%s of %v: %v", what, c, err)
}

// run plays it in virtual time.
func (p play) run(t *testing.T) *judge {
	t.Helper()
	j := &judge{
		kind: p.kind, slack: 100 * time.Millisecond, holds: map[*mutex.Held]lockCall{}, asked: map[string]int{},
		closed: map[string]time.Time{}, failing: map[string]bool{},
	}
	for _, h := range p.hiccups {
		j.failing[h.process] = true
	}
	synctest.Test(t, func(t *testing.T) {
		j.began = time.Now()
		db := memory.New()
		var all sync.WaitGroup
		processes := map[string]*mutex.Locks{}
		for _, name := range []string{"a", "b", "c"} {
			client := db.Client()
			client.Fault(func(c memory.Call) memory.Verdict {
				now := int(time.Since(j.began) / time.Second)
				if j.tooMany(name, c) {
					return memory.Verdict{Delay: time.Second}
				}
				for _, h := range p.hiccups {
					if h.process == name && now >= h.at && now < h.ends {
						return memory.Verdict{Fault: h.fault}
					}
				}
				return memory.Verdict{Delay: time.Millisecond}
			})
			locks := process(t, client, name)
			processes[name] = locks
			if at, closes := p.closes[name]; closes {
				all.Go(func() {
					time.Sleep(time.Duration(at) * time.Second)
					j.close(t, name, locks)
				})
			}
		}
		for _, c := range p.calls {
			locks := processes[c.process]
			all.Go(func() { p.call(t, j, locks, c) })
		}
		ended := make(chan struct{})
		go func() {
			all.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After((playTime + restTime) * time.Second):
			j.breaks("some calls have not returned")
		}
		for name, l := range processes {
			j.close(t, name, l)
		}
		<-ended
	})
	return j
}

// close closes a process, whose calls all return then.
func (j *judge) close(t *testing.T, name string, l *mutex.Locks) {
	t.Helper()
	const most = 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	before := time.Now()
	j.mu.Lock()
	if _, again := j.closed[name]; !again {
		j.closed[name] = before
	}
	j.mu.Unlock()
	err := l.Close(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.say("%s is closed: %v", name, err); time.Since(before) >= most {
		j.breaks("%s took %v to close", name, time.Since(before))
	}
}

// mostCalls is how many calls to the store a process may make within a second.
const mostCalls = 2000

// tooMany counts a call to the store, and says whether there are too many.
func (j *judge) tooMany(name string, c memory.Call) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := time.Since(j.began) / time.Second; now != j.second {
		j.second, j.asked = now, map[string]int{}
	}
	j.asked[name]++
	if j.asked[name] == mostCalls {
		j.breaks("%s calls the store without a pause: %+v", name, c)
	}
	return j.asked[name] >= mostCalls
}

// call makes one call, and gives back what it got.
func (p play) call(t *testing.T, j *judge, l *mutex.Locks, c lockCall) {
	t.Helper()
	time.Sleep(time.Duration(c.at) * time.Second)
	h, err := p.ask(t, l, c)
	if err != nil {
		j.ended("the call", c, err)
		return
	}
	j.enters(h, c)
	time.Sleep(time.Duration(c.hold) * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	j.leaves(h)
	if c.detach > 0 {
		until := time.Now().Add(time.Duration(c.detach) * time.Second)
		if err = h.Detach(ctx, until); err == nil {
			j.mu.Lock()
			j.keep(until)
			j.mu.Unlock()
		}
		j.ended("detachment", c, err)
		if !errors.Is(err, mutex.ErrShared) { // refused, and still held
			return
		}
	}
	j.ended("unlock", c, h.Unlock(ctx))
}

func (p play) ask(t *testing.T, l *mutex.Locks, c lockCall) (*mutex.Held, error) {
	t.Helper()
	type lock interface {
		Lock(ctx context.Context) (*mutex.Held, error)
		TryLock(ctx context.Context) (*mutex.Held, error)
		LockWithin(ctx context.Context, d time.Duration) (*mutex.Held, error)
	}
	var of lock
	switch p.kind {
	case "rw":
		rw := with(l.RWMutex("m"), c)
		if of = rw; c.shared {
			of = readers{rw}
		}
	case "semaphore":
		of = with(l.Semaphore("m", 2), c)
	default:
		of = with(l.Mutex("m"), c)
	}
	switch c.how {
	case "try":
		return of.TryLock(t.Context())
	case "within":
		return of.LockWithin(t.Context(), within)
	}
	return of.Lock(t.Context())
}

// readers is the side of a read-write lock that reads.
type readers struct{ mutex.RWMutex }

func (r readers) Lock(ctx context.Context) (*mutex.Held, error)    { return r.RLock(ctx) }
func (r readers) TryLock(ctx context.Context) (*mutex.Held, error) { return r.TryRLock(ctx) }

func (r readers) LockWithin(ctx context.Context, d time.Duration) (*mutex.Held, error) {
	return r.RLockWithin(ctx, d)
}

// with has a lock with the options of a call.
func with[M interface {
	Unfair() M
	Reentrant(owner string) M
	MaxHold(d time.Duration) M
	HoldAtLeast(d time.Duration) M
}](m M, c lockCall) M {
	if c.unfair {
		m = m.Unfair()
	}
	if c.owner != "" {
		m = m.Reentrant(c.owner)
	}
	if c.maxHold > 0 {
		m = m.MaxHold(time.Duration(c.maxHold) * time.Second)
	}
	if c.atLeast > 0 {
		m = m.HoldAtLeast(time.Duration(c.atLeast) * time.Second)
	}
	return m
}

// Whatever options calls have, whatever the store does and whichever process closes, no lock is held by too many.
// Tokens rise, no one enters while it is kept, and every call returns.
func TestCombinations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		if j := p.run(t); len(j.wrong) > 0 {
			rt.Fatalf(
				"%s, the store fails %+v, closed %v:\n%s\n%s", p.kind, p.hiccups, p.closes,
				strings.Join(j.events, "\n"),
				strings.Join(j.wrong, "\n"),
			)
		}
	})
}
