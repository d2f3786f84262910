package elect_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// sessionRev is the revision of a session's document as it is now.
func sessionRev(t *testing.T, db *memory.Store, id string) int64 {
	t.Helper()
	res, err := db.Read(t.Context(), driver.KindSession, id)
	if err != nil || len(res.Docs) != 1 {
		t.Fatalf("read %s: %+v, %v", id, res, err)
	}
	return res.Docs[0].Rev
}

// A session is written alive at even revisions, and dead at odd ones: by itself, by a guard, by another.
func TestSessionRevisionsSeparateLiveFromDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b, c := startNode(t, db, "a"), startNode(t, db, "b"), startNode(t, db, "c")
		ids := map[string]string{}
		for name, n := range map[string]*node{"itself": a, "another": b, "a guard": c} {
			eventually(t, lease, name, func() bool { return n.View().Open })
			ids[name] = n.View().Session
		}
		time.Sleep(lease)
		for name, id := range ids {
			if rev := sessionRev(t, db, id); rev%2 != 0 || rev < time.Now().Add(-lease).UnixMilli() {
				t.Errorf("%s: alive at revision %d", name, rev)
			}
		}
		a.stop()
		b.cut()
		if err := electing.MarkDead(t.Context(), db, electing.Session{ID: ids["a guard"]}); err != nil {
			t.Fatal(err)
		}
		d := startNode(t, db, "d")
		time.Sleep(2 * lease)
		for name, id := range ids {
			if rev := sessionRev(t, db, id); rev%2 != 1 {
				t.Errorf("ended by %s: dead at revision %d", name, rev)
			}
		}
		b.heal()
		b.stop()
		c.stop()
		d.stop()
	})
}

// Clock set back, lock deleted, replicas restarted: only the group's counter remembers how high the tokens were.
func TestTokenRisesOverADeletedLockByTheHighWaterMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		db := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }))
		rec := newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/k") == "a" })
		before := rec.token("g/k")
		time.Sleep(lease) // the counter is raised
		a.stop()
		back.Store(int64(time.Hour))
		deleteLock(t, db, "g/k")
		b := startNode(t, db, "b")
		mustLock(t, b, "g/k", rec.hold("b"))
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/k") == "b" })
		if got := rec.token("g/k"); got <= before {
			t.Errorf("token %d after %d", got, before)
		}
		b.stop()
	})
}

// A process whose wall clock is ahead must not write before the store has reported its time.
func TestNothingIsWrittenBeforeTheStoreHasShownItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(-2 * time.Hour) }))
		var written atomic.Int64
		var shown atomic.Bool
		a := startNode(t, db, "a", func(cfg *elect.Config) {
			cfg.Store.(*memory.Store).Fault(func(c memory.Call) memory.Verdict {
				if c.Op == memory.OpApply {
					written.Add(1)
				} else if !shown.Load() {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
		})
		time.Sleep(2 * lease)
		if n := written.Load(); n > 0 {
			t.Errorf("%d writes before the first reply", n)
		}
		shown.Store(true)
		eventually(t, lease, "open", func() bool { return a.View().Open })
		if rev := sessionRev(t, db, a.View().Session); rev > time.Now().Add(-time.Hour).UnixMilli() {
			t.Errorf("opened at revision %d, ahead of the store", rev)
		}
		a.stop()
	})
}

// The creation of a session is sent once: with its answer lost it is read, and where it is not there another name
// is taken.
func TestSessionWhoseCreationIsLostTakesAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var mu sync.Mutex
		var created []driver.Change
		a := startNode(t, db, "a", func(cfg *elect.Config) {
			cfg.Store.(*memory.Store).Fault(func(c memory.Call) memory.Verdict {
				if c.Op != memory.OpApply || c.Changes[0].Doc.Kind != driver.KindSession || c.Changes[0].IfRev != 0 ||
					c.Changes[0].Doc.State != "live" {
					return memory.Verdict{}
				}
				mu.Lock()
				defer mu.Unlock()
				if created = append(created, c.Changes[0]); len(created) == 1 {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
		})
		eventually(t, lease, "open", func() bool { return a.View().Open })
		mu.Lock()
		defer mu.Unlock()
		if len(created) != 2 || created[0].Doc.ID == created[1].Doc.ID || a.View().Session != created[1].Doc.ID {
			t.Fatalf("created %+v, is %s: want two names, each created once", created, a.View().Session)
		}
		if outs, err := db.Apply(t.Context(), created[0]); err != nil || outs[0].Status == driver.Applied {
			t.Errorf("the late copy: %+v, %v", outs, err)
		}
		a.stop()
	})
}

// An operator is informed when the store shows the own session below what it had acknowledged.
func TestStoreThatForgotIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		eventually(t, lease, "open", func() bool { return a.View().Open })
		id := a.View().Session
		res, err := db.Read(t.Context(), driver.KindSession, id)
		if err != nil {
			t.Fatal(err)
		}
		backup := res.Docs[0]
		time.Sleep(lease)
		if a.View().Forgot {
			t.Error("reported before anything was forgotten")
		}
		rev := sessionRev(t, db, id)
		for _, c := range []driver.Change{{Op: driver.Delete, IfRev: rev, Doc: backup}, {Doc: backup}} {
			if outs, err := db.Apply(t.Context(), c); err != nil || outs[0].Status != driver.Applied {
				t.Fatal(outs, err)
			}
		}
		eventually(t, lease, "reported", func() bool { return a.View().Forgot })
		eventually(
			t, lease, "a session of another name", func() bool { return a.View().Open && a.View().Session != id },
		)
		a.stop()
	})
}
