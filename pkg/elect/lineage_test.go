package elect_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// forgetful is a store that forgets the newest of its writes at a failover. As such a store has to, it names the
// lineage of writes, refuses what was decided on another, and lets claims wait for T after a failover.
type forgetful struct {
	mu     sync.Mutex
	now    *memory.Store
	number int
	gate   time.Time
	claims int  // that were held back
	broken bool // locks cannot be read
}

// silenced is a client of the store whose heartbeats are not answered.
type silenced struct {
	*forgetful
	silent atomic.Bool
}

func (s *silenced) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if s.silent.Load() && changes[0].Doc.Kind == driver.KindSession {
		return driver.AllUnknown(len(changes), errSilent), nil
	}
	return s.forgetful.Apply(ctx, changes...)
}

var errSilent = errors.New("no answer")

func newForgetful() *forgetful { return &forgetful{now: memory.New(), number: 1} }

func (f *forgetful) lineage() (db *memory.Store, lineage string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, fmt.Sprint("lineage ", f.number)
}

// kept is a copy of all that the store holds.
func (f *forgetful) kept(t *testing.T) *memory.Store {
	t.Helper()
	from, _ := f.lineage()
	to := memory.New()
	for _, kind := range driver.Kinds() {
		reply, err := from.List(t.Context(), kind, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range reply.Docs {
			c := driver.Change{Doc: doc}
			if kind == driver.KindGroup {
				c.Op = driver.Increment
			}
			if _, err := to.Apply(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

// failOver goes on from what was kept.
func (f *forgetful) failOver(kept *memory.Store, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.number, f.gate = kept, f.number+1, since
}

// breaks says whether reads of locks fail from now on.
func (f *forgetful) breaks(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = yes
}

func (f *forgetful) heldBack() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims
}

func (f *forgetful) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	db, lineage := f.lineage()
	f.mu.Lock()
	broken := f.broken && kind == driver.KindLock
	f.mu.Unlock()
	if broken {
		return driver.Reply{}, store.ErrUnavailable
	}
	reply, err := db.Read(ctx, kind, ids...)
	reply.Lineage = lineage
	return reply, err
}

func (f *forgetful) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	db, lineage := f.lineage()
	reply, err := db.List(ctx, kind, q)
	reply.Lineage = lineage
	return reply, err
}

func (f *forgetful) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs := make([]driver.Outcome, len(changes))
	for i, c := range changes {
		outs[i] = f.apply(ctx, c)
	}
	return outs, nil
}

var errClosed = errors.New("the gate is closed")

func (f *forgetful) apply(ctx context.Context, c driver.Change) driver.Outcome {
	db, lineage := f.lineage()
	unknown := driver.AllUnknown(1, errClosed)[0]
	unknown.Lineage = lineage
	if c.Lineage != "" && c.Lineage != lineage {
		return unknown
	}
	f.mu.Lock()
	closed := c.Claim > 0 && time.Since(f.gate) < c.Claim
	if closed {
		f.claims++
	}
	f.mu.Unlock()
	if closed {
		return unknown
	}
	outs, err := db.Apply(ctx, c)
	if err != nil {
		return unknown
	}
	outs[0].Lineage = lineage
	return outs[0]
}

func (f *forgetful) Watch(context.Context, driver.Interest) (<-chan driver.Notification, error) {
	return nil, driver.ErrCannotWatch
}

func (f *forgetful) Close(context.Context) error { return nil }

// on makes an elector use the store.
func on(f *forgetful) func(*elect.Config) { return func(c *elect.Config) { c.Store = f } }

func twoOnForgetful(t *testing.T) (f *forgetful, rec *recorder, a, b *node) {
	t.Helper()
	f, rec = newForgetful(), newRecorder(t)
	a, b = startNode(t, memory.New(), "a", on(f)), startNode(t, memory.New(), "b", on(f))
	a.track(t)
	b.track(t)
	return f, rec, a, b
}

// A failover that lost nothing of what is held ends no run, and heartbeats go on before D.
func TestRunsGoOnThroughAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec, a, b := twoOnForgetful(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		for range 5 {
			time.Sleep(lease / 3)
			f.failOver(f.kept(t), time.Now())
		}
		time.Sleep(2 * lease)
		if rec.owner("g/k") != "a" || rec.started() != 1 {
			t.Errorf("owner %q after %d starts, want a's run to go on", rec.owner("g/k"), rec.started())
		}
		a.stop()
		b.stop()
	})
}

// A claim that was acknowledged and forgotten ends with its run, before another may claim the key.
func TestAClaimThatWasForgottenEndsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec, a, b := twoOnForgetful(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		kept := f.kept(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it again", func() bool { return rec.owner("g/k") == "a" })
		f.failOver(kept, time.Now())
		// sooner than the count of locks would show it
		eventually(t, lease/5, "a's run has ended", func() bool { return rec.owner("g/k") == "" })
		eventually(t, lease, "b knows that it is free", func() bool {
			l, ok := b.View().Locks["g/k"]
			return ok && l.Session == ""
		})
		b.claim(t, "g/k", rec.hold("b"))
		eventually(t, 2*lease, "b runs it", func() bool { return rec.owner("g/k") == "b" })
		if f.heldBack() == 0 {
			t.Error("no claim was held back: nothing said that it was one")
		}
		a.stop()
		b.stop()
	})
}

// A heartbeat that was acknowledged and forgotten ends the session, and another is opened.
func TestASessionThatWasForgottenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec, a, b := twoOnForgetful(t)
		before := a.View().Session
		kept := f.kept(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		time.Sleep(lease / 2)
		f.failOver(kept, time.Now())
		eventually(t, lease/2, "a's run has ended", func() bool { return rec.owner("g/k") == "" })
		eventually(t, lease, "a has another session", func() bool {
			v := a.View()
			return v.Open && v.Session != before
		})
		a.stop()
		b.stop()
	})
}

// A death that was acknowledged and forgotten is not believed any more.
func TestADeathThatWasForgottenIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec := newForgetful(), newRecorder(t)
		through := &silenced{forgetful: f}
		a := startNode(t, memory.New(), "a", func(c *elect.Config) { c.Store = through })
		b := startNode(t, memory.New(), "b", on(f))
		a.track(t)
		b.track(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		through.silent.Store(true)
		time.Sleep(lease / 5) // a heartbeat that is under way comes to its end
		kept := f.kept(t)
		if err := electing.MarkDead(t.Context(), f, electing.Session{ID: a.View().Session}); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease/4, "b knows that a is dead", func() bool {
			h, ok, err := b.Holder(t.Context(), "g/k")
			return err == nil && ok && !h.Alive
		})
		f.failOver(kept, time.Now().Add(-2*lease)) // the gate is open: nothing but what b knows keeps it from claiming
		through.silent.Store(false)
		for range 20 {
			b.claim(t, "g/k", rec.hold("b"))
			time.Sleep(lease / 20)
		}
		if rec.owner("g/k") != "a" || rec.started() != 1 {
			t.Errorf("owner %q after %d starts, want a's run to go on", rec.owner("g/k"), rec.started())
		}
		a.stop()
		b.stop()
	})
}

// While it is not known whether the locks are still one's own, no heartbeat counts.
func TestNoHeartbeatCountsBeforeTheLocksAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rec, a, b := twoOnForgetful(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		f.breaks(true)
		time.Sleep(2 * lease)
		if rec.owner("g/k") != "a" {
			t.Fatal("a lost it without a failover")
		}
		f.failOver(f.kept(t), time.Now())
		eventually(t, lease*8/10, "a's run has ended by its deadline", func() bool { return rec.owner("g/k") == "" })
		f.breaks(false)
		eventually(t, 2*lease, "a runs it again", func() bool { return rec.owner("g/k") == "a" })
		a.stop()
		b.stop()
	})
}
