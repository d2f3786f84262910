package elect_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestRunEndsAlsoWhenTheStoreIsDown(t *testing.T) {
	for name, before := range map[string]time.Duration{"for a while": lease, "from the start": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, rec := memory.New().Client(), newRecorder(t)
				down := func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} }
				if before == 0 {
					db.Fault(down)
				}
				e, err := elect.New(elect.Config{
					Store: db, Member: elect.Member{Instance: "a"}, LeaseDuration: lease, Logger: logr.Discard(),
					Clock: elect.GoClock(),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				if err := e.Start(ctx); err != nil {
					t.Fatal(err)
				}
				go func() { ended <- e.Wait() }()
				if before > 0 {
					if ok, err := e.Lock(ctx, "g/k", rec.hold("a")); !ok || err != nil {
						t.Fatal(ok, err)
					}
				}
				time.Sleep(before)
				db.Fault(down)
				stop()
				begin := time.Now()
				if err := <-ended; !errors.Is(err, elect.ErrUnavailable) {
					t.Errorf("Run = %v", err)
				}
				if took := time.Since(begin); took > lease+lease/10 {
					t.Errorf("ended after %v", took)
				}
				if rec.owner("g/k") != "" {
					t.Error("ended while a run goes on")
				}
			})
		})
	}
}

// Who was informed to drain takes no keys in a new session either.
func TestDrainOutlivesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := a.View().Session
		if err := electing.MarkDead(t.Context(), db, electing.Session{ID: first}); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease, "a new session", func() bool { v := a.View(); return v.Open && v.Session != first })
		if ok, err := a.Lock(t.Context(), "g/k", rec.hold("a")); ok || !errors.Is(err, elect.ErrClosed) {
			t.Errorf("Lock while draining = %v, %v", ok, err)
		}
		second := a.View().Session
		eventually(t, lease, "the document says so", func() bool {
			res, err := db.Read(t.Context(), driver.KindSession, second)
			return err == nil && len(res.Docs) == 1 && res.Docs[0].State == string(record.Draining)
		})
		a.stop()
	})
}

// What is released last is informed as well, though the session ends a moment later.
func TestOthersAreNotifiedOfTheLastRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		mustLock(t, a, "g/1", rec.hold("a"))
		mustLock(t, a, "g/2", func(ctx context.Context, _ *elect.Lease) error {
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // within the pause between two tellings
			return nil
		})
		time.Sleep(lease)
		var mu sync.Mutex
		notified := false
		a.store.Fault(func(c memory.Call) memory.Verdict {
			mu.Lock()
			defer mu.Unlock()
			for _, change := range c.Changes {
				switch {
				case change.Op == driver.Increment && change.Doc.ID == "g":
					notified = true
				case change.Doc.Kind == driver.KindLock:
					notified = false
				}
			}
			return memory.Verdict{}
		})
		a.stop()
		if !notified {
			t.Error("the last release was not reported")
		}
	})
}

func TestWatchThatHangsIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var tries atomic.Int64
		db.Fault(func(c memory.Call) memory.Verdict { // before the first try
			if c.Op == memory.OpWatch {
				tries.Add(1)
				return memory.Verdict{Fault: memory.Hang}
			}
			return memory.Verdict{}
		})
		a := startNode(t, db, "a", func(c *elect.Config) { c.Store = db })
		time.Sleep(2 * lease)
		if n := tries.Load(); n < 3 || n > 2*40 {
			t.Errorf("%d tries in two leases", n)
		}
		a.stop()
	})
}

func TestLeaseIsNotValidAfterTheReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		kept := make(chan *elect.Lease, 1)
		mustLock(t, a, "g/k", func(_ context.Context, l *elect.Lease) error {
			if !l.Valid() || l.Deadline().IsZero() {
				t.Error("not valid while it runs")
			}
			kept <- l
			return nil
		})
		l := <-kept
		eventually(t, time.Second, "released", func() bool { return len(a.HoldingKeys()) == 0 })
		if l.Valid() || !l.Deadline().IsZero() {
			t.Error("valid after the run has returned")
		}
		wantLost(t, "SetValue after the return", l.SetValue(t.Context(), []byte("x")))
		a.stop()
	})
}

func TestReservationFromAClockThatWasSetBackHoldsNoOneOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		lock := record.Lock{
			Key: "g/k", Rev: 5, WriterID: driver.WriterID{Session: "x", Seq: 1}, Next: "y",
			Since: time.Now().Add(time.Hour).UnixMilli(),
		}
		if _, err := db.Apply(t.Context(), driver.Change{Doc: lock.Doc()}); err != nil {
			t.Fatal(err)
		}
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", rec.hold("a"))
		a.stop()
	})
}

// A refresh is many operations: each has its own limit, not all of them one.
func TestSlowStoreIsReadAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpList {
				return memory.Verdict{Delay: lease / 8}
			}
			return memory.Verdict{}
		})
		if err := a.Track(t.Context(), "g", "h", "i"); err != nil {
			t.Fatal(err)
		}
		eventually(t, 3*lease, "loaded", func() bool { return a.View().Loaded })
		a.stop()
	})
}

// Changes are read by revision, and revisions follow the store's clock: also one that was set back.
func TestChangesAreSeenAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		db := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }))
		rec := newRecorder(t)
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		a.track(t)
		b.track(t)
		a.claim(t, "g/1", rec.hold("a"))
		eventually(
			t, time.Second, "b sees the first",
			func() bool { return rec.owner("g/1") == "a" && b.View().Lock("g/1").Session != "" },
		)
		back.Store(int64(time.Hour))
		time.Sleep(time.Second)
		c := startNode(t, db, "c") // knows nothing of the revisions before
		mustLock(t, c, "g/2", rec.hold("c"))
		eventually(t, time.Second, "b sees the second", func() bool { return b.View().Lock("g/2").Session != "" })
		a.stop()
		b.stop()
		c.stop()
	})
}

// Dead sessions are forgotten by all, not only by the process that removes them from the store.
func TestTheDeadAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		slow := func(c *elect.Config) { c.LeaseDuration = 2 * time.Minute }
		a, b, c := startNode(t, db, "a", slow), startNode(t, db, "b", slow), startNode(t, db, "c", slow)
		time.Sleep(time.Minute)
		b.stop()
		time.Sleep(time.Minute)
		for _, n := range []*node{a, c} {
			if got := len(n.View().Sessions); got != 3 {
				t.Errorf("%d sessions known, want 3", got)
			}
		}
		time.Sleep(70 * time.Minute)
		for _, n := range []*node{a, c} {
			if got := len(n.View().Sessions); got != 2 {
				t.Errorf("%d sessions known, want 2", got)
			}
		}
		res, err := db.List(t.Context(), driver.KindSession, driver.Query{})
		if err != nil || len(res.Docs) != 2 {
			t.Errorf("%d sessions kept, want 2: %v", len(res.Docs), err)
		}
		members, err := db.List(t.Context(), driver.KindMember, driver.Query{})
		if err != nil || len(members.Docs) != 2 {
			t.Errorf("%d members kept, want 2: %v", len(members.Docs), err)
		}
		a.stop()
		c.stop()
	})
}
