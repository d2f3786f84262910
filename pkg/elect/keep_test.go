package elect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// outlives is a run in a that is there until the test says that it is not, whatever its process knows.
func outlives(rec *recorder) elect.RunFunc {
	return func(ctx context.Context, l *elect.Lease) error {
		rec.begin("a", l)
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// While a guard keeps the session of a process that has died, the key that still runs stays with it however long that
// takes, and all others run elsewhere at once. When nothing is left it goes on elsewhere, under a larger token.
func TestAKeptSessionHoldsOnlyWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		keys := []elect.Key{"g/stuck", "g/x", "g/y"}
		for _, key := range keys {
			mustLock(t, a, key, outlives(rec))
			eventually(t, lease, "it runs", func() bool { return rec.owner(key) == "a" })
		}
		eventually(t, lease, "b is open", func() bool { return b.View().Open })
		session := a.View().Session
		a.cut() // its process has died
		for _, key := range keys[1:] {
			rec.end(key) // the guard has ended it
		}
		guard := db.Client()
		keep := func(d time.Duration) {
			t.Helper()
			for range 10 * d / lease {
				err := electing.Keep(t.Context(), guard, session, func(key elect.Key) bool { return key == "g/stuck" })
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(lease / 10)
			}
		}
		keep(lease)
		for _, key := range keys[1:] {
			mustLock(t, b, key, rec.hold("b"))
		}
		keep(5 * lease)
		if v := b.View(); v.Lock("g/stuck").Session != session {
			t.Errorf("the lock of what runs names %q, want %q", v.Lock("g/stuck").Session, session)
		} else if s, ok := sessionOf(v, session); !ok || s.State != record.Draining {
			t.Errorf("the session is %v, want it to drain: nobody may plan with it", s.State)
		}
		if ok, err := b.Lock(t.Context(), "g/stuck", rec.hold("b")); ok || err != nil {
			t.Errorf("b got what runs on a: %t, %v", ok, err)
		}
		rec.end("g/stuck")
		if err := electing.MarkDead(t.Context(), guard, electing.Session{ID: session}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease / 10)
		mustLock(t, b, "g/stuck", rec.hold("b"))
		a.heal()
		a.stop()
		b.stop()
	})
}

// A claim that was under way when the process died lands on a session that is kept: the next look frees it.
func TestAKeptSessionFreesWhatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		mustLock(t, a, "g/stuck", outlives(rec))
		session := a.View().Session
		a.cut()
		guard := db.Client()
		stuck := func(key elect.Key) bool { return key == "g/stuck" }
		if err := electing.Keep(t.Context(), guard, session, stuck); err != nil {
			t.Fatal(err)
		}
		late := record.Lock{
			Key: "g/late", Rev: 1 << 50, Token: 1 << 50, Session: session, Instance: "a",
			WriterID: driver.WriterID{Session: session, Seq: 1 << 40},
		}
		if _, err := guard.Apply(t.Context(), driver.Change{Doc: late.Doc()}); err != nil {
			t.Fatal(err)
		}
		if err := electing.Keep(t.Context(), guard, session, stuck); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease / 10)
		mustLock(t, b, "g/late", rec.hold("b"))
		rec.end("g/stuck")
		a.heal()
		a.stop()
		b.stop()
	})
}

// What others have ended cannot be kept, and neither can what is not there.
func TestAnEndedSessionIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _, a, b := twoNodes(t)
		eventually(t, lease, "it is open", func() bool { return a.View().Open })
		session := a.View().Session
		a.cut()
		if err := electing.MarkDead(t.Context(), db.Client(), electing.Session{ID: session}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{session, "01890000-0000-7000-8000-000000000000"} {
			err := electing.Keep(t.Context(), db.Client(), id, func(elect.Key) bool { return true })
			if !errors.Is(err, electing.ErrDead) {
				t.Errorf("session %s: %v, want %v", id, err, electing.ErrDead)
			}
		}
		a.heal()
		a.stop()
		b.stop()
	})
}
