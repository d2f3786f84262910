package elect_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A lock that is written over to another live session is run by one at a time all the same. The new owner did not ask
// for it, and waits until the old one has noticed.
func TestLockGivenToAnotherByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		time.Sleep(lease)
		edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = b.View().Session })
		eventually(t, 3*lease, "b runs it", func() bool {
			if _, err := b.Lock(t.Context(), "g/k", rec.hold("b")); err != nil {
				t.Fatal(err)
			}
			return rec.owner("g/k") == "b"
		})
		a.stop()
		b.stop()
	})
}

// A function that ignores its context and whose key was taken away alone must not go on during the next owner's run.
func TestRunThatOutlivesASingleKeyIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		end := make(chan struct{})
		mustLock(t, a, "g/k", func(context.Context, *elect.Lease) error { <-end; return nil })
		mustLock(t, a, "g/other", func(ctx context.Context, _ *elect.Lease) error { <-ctx.Done(); return nil })
		edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = "" })
		edit(t, db, driver.KindLock, "g/other", func(d *driver.Doc) { d.Session = "" })
		eventually(t, lease, "reported", func() bool { return a.stuck.Load() > 0 })
		time.Sleep(lease)
		if n := a.stuck.Load(); n != 1 {
			t.Errorf("reported %d times, want once", n)
		}
		close(end)
		a.stop()
	})
}

// A session that somebody wrote dead has no time of death. It gets one, and is removed like any other.
func TestSessionDeadByHandIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		slow := func(c *elect.Config) { c.LeaseDuration = 2 * time.Minute } // two hours in a few steps
		a := startNode(t, db, "a", slow)
		for id, body := range map[string]string{
			"no-time": `{}`, "future": `{"died":253402300799998}`, "malformed": `[]`,
		} {
			d := driver.Doc{
				Kind: driver.KindSession, ID: id, Rev: 1, State: string(record.Dead),
				WriterID: driver.WriterID{Session: "hand", Seq: 1},
			}
			if d.Body = []byte(body); body == `[]` {
				d.Body = []byte(`{"died":"long ago"}`)
			}
			if _, err := db.Apply(t.Context(), driver.Change{Doc: d}); err != nil {
				t.Fatal(err)
			}
		}
		dead := func() int {
			res, err := db.List(t.Context(), driver.KindSession, driver.Query{States: []string{string(record.Dead)}})
			if err != nil {
				t.Fatal(err)
			}
			return len(res.Docs)
		}
		time.Sleep(50 * time.Minute)
		if n := dead(); n != 3 {
			t.Errorf("%d are left before their time", n)
		}
		time.Sleep(time.Hour)
		if n := dead(); n != 0 {
			t.Errorf("%d are not removed", n)
		}
		a.stop()
	})
}

// Events are written although the store is unreachable for a while when they happen, and each once.
func TestEventsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		eventually(t, lease, "open", func() bool { return a.View().Open })
		time.Sleep(time.Second)
		var deaf atomic.Bool
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpApply && c.Changes[0].Doc.Kind == driver.KindEvent {
				if deaf.Load() {
					return memory.Verdict{Fault: memory.LoseAnswer}
				}
				return memory.Verdict{Fault: memory.LoseRequest}
			}
			return memory.Verdict{}
		})
		a.Note(record.Event{Type: "Lost", Message: "the request"})
		time.Sleep(lease)
		deaf.Store(true)
		time.Sleep(lease)
		a.heal()
		count := func() int {
			res, err := db.List(t.Context(), driver.KindEvent, driver.Query{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, d := range res.Docs {
				if ev, err := record.EventFrom(d); err == nil && ev.Type == "Lost" {
					n++
				}
			}
			return n
		}
		eventually(t, lease, "written", func() bool { return count() == 1 })
		time.Sleep(lease)
		if n := count(); n != 1 {
			t.Errorf("written %d times", n)
		}
		a.stop()
	})
}

// A run that takes its time to stop must notice, too, that its key was taken away: another may run it by now.
func TestStoppingRunIsLookedAtToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		end := make(chan struct{})
		mustLock(t, a, "g/k", func(context.Context, *elect.Lease) error { <-end; return nil })
		released := make(chan struct{})
		go func() {
			defer close(released)
			_ = a.Unlock(t.Context(), "g/k")
		}()
		time.Sleep(lease)
		edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = "" })
		eventually(t, lease, "reported", func() bool { return a.stuck.Load() > 0 })
		close(end)
		<-released
		a.stop()
	})
}
