package elect_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// happened are the events in the store, each as its type, who left, and the sentence.
func happened(t *testing.T, db *memory.Store) []string {
	t.Helper()
	res, err := db.Client().List(context.WithoutCancel(t.Context()), driver.KindEvent, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range res.Docs {
		e, err := record.EventFrom(d)
		if err != nil {
			t.Error(err)
		}
		all = append(all, e.Type+" "+e.From+": "+e.Message)
	}
	return all
}

func TestWhoLeavesInOrderHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		mustLock(t, a, "g/k", rec.hold("a"))
		session := a.View().Session
		a.stop()
		eventually(t, lease, "b sees that a has left", func() bool {
			s, _ := sessionOf(b.View(), session)
			return s.State == record.Dead && s.Left && s.Cause == "it left in order"
		})
		eventually(t, lease, "b sees why", func() bool { return b.View().Lock("g/k").Message == "a is stopping" })
		if all := happened(t, db); !slices.Contains(all, "Released a: a is stopping") {
			t.Errorf("what was noted last is lost: %q", all)
		}
		b.stop()
	})
}

func TestALostLeaseIsNoDeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		mustLock(t, a, "g/k", rec.hold("a"))
		session := a.View().Session
		a.cut()
		eventually(t, 3*lease, "b sees that a is dead", func() bool {
			s, _ := sessionOf(b.View(), session)
			return s.State == record.Dead
		})
		if s, _ := sessionOf(b.View(), session); s.Left || s.Cause != "no heartbeat for 4 s" {
			t.Errorf("%+v", s)
		}
		if ok, err := b.LockWith(t.Context(), "g/k", elect.LockOptions{WaitForever: true}, rec.hold("b")); !ok ||
			err != nil {
			t.Fatal(ok, err)
		}
		eventually(t, lease, "b sees why it has it", func() bool {
			l := b.View().Lock("g/k")
			return l.Reason == record.ReasonOrphaned && l.Message == "a died: no heartbeat for 4 s"
		})
		a.heal()
		eventually(t, 3*lease, "a is back, and says what was", func() bool {
			return slices.Contains(happened(t, db), "LeaseLost a: it could not renew its lease in time")
		})
		if !slices.Contains(happened(t, db), "Died a: no heartbeat for 4 s") {
			t.Errorf("%q", happened(t, db))
		}
		a.stop()
		b.stop()
	})
}

func TestAReleaseForNoOtherIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		mustLock(t, a, "g/k", rec.hold("a"))
		mustLock(t, a, "g/quiet", rec.hold("a"))
		if err := a.Release(t.Context(), cluster.HandOver{
			Key: "g/k", Suspend: true, Reason: record.ReasonPaused, Message: "paused by alice",
		}); err != nil {
			t.Fatal(err)
		}
		if err := a.Unlock(t.Context(), "g/quiet"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		all := happened(t, db)
		if !slices.Contains(all, "Released a: paused by alice") || slices.Contains(all, "Released a: ") {
			t.Errorf("%q", all)
		}
		if l := a.View().Lock("g/k"); l.Reason != record.ReasonPaused || l.Message != "paused by alice" {
			t.Errorf("%+v", l)
		}
		a.stop()
	})
}

func TestAMarkedDeathIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		eventually(t, lease, "it is open", func() bool { return a.View().Open })
		session := a.View().Session
		a.cut()
		if err := electing.MarkDead(t.Context(), db.Client(), electing.Session{ID: session}); err != nil {
			t.Fatal(err)
		}
		if all := happened(t, db); !slices.Contains(all, "Died a: its process died, and its guard ended its tasks") {
			t.Errorf("%q", all)
		}
		a.heal()
		a.stop()
	})
}

// The next owner learns that the task of a key was declared no more, and of no other release. It learns it also where
// somebody had the key for a moment in between, until a status of a run says something else.
func TestTheNextOwnerLearnsThatATaskWasRemoved(t *testing.T) {
	for _, reason := range []elect.Reason{
		record.ReasonRemoved, record.ReasonPaused, record.ReasonBalance, record.ReasonShutdown, "",
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, rec, a, b := twoNodes(t)
				release := func(n *node, reason elect.Reason) {
					if err := n.Release(t.Context(), cluster.HandOver{Key: "g/k", Suspend: true, Reason: reason}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // the other one has seen that
				}
				found := make(chan elect.TaskStatus, 2)
				next := func(n *node, report *elect.TaskStatus) {
					mustLock(t, n, "g/k", func(ctx context.Context, l *elect.Lease) error {
						found <- l.Status()
						if report != nil {
							l.Report(*report)
						}
						<-ctx.Done()
						return context.Cause(ctx)
					})
				}
				removed := reason == record.ReasonRemoved
				mustLock(t, a, "g/k", rec.hold("a"))
				release(a, reason)
				next(b, nil)
				release(b, record.ReasonBalance)
				next(a, &elect.TaskStatus{LastTick: 7})
				if first, second := <-found, <-found; first.Undeclared != removed || second.Undeclared != removed {
					t.Errorf("released for %q: %t, and then %t", reason, first.Undeclared, second.Undeclared)
				}
				release(a, record.ReasonBalance)
				next(b, nil)
				if last := <-found; last.Undeclared || last.LastTick != 7 {
					t.Errorf("after a run has said something else: %+v", last)
				}
				a.stop()
				b.stop()
			})
		})
	}
}
