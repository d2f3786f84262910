package elect_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// track makes a node know the locks of group g, and waits until it does.
func (n *node) track(t *testing.T) {
	t.Helper()
	if err := n.Track(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	eventually(t, lease, "open and loaded", func() bool { v := n.View(); return v.Open && v.Loaded })
}

func (n *node) claim(t *testing.T, key elect.Key, run elect.RunFunc) {
	t.Helper()
	if err := n.Claim(
		t.Context(), []elect.Key{key}, elect.LockOptions{}, func(elect.Key) elect.Runnable { return elect.Go(run) },
	); err != nil {
		t.Fatal(err)
	}
}

func deleteLock(t *testing.T, db *memory.Store, key elect.Key) {
	t.Helper()
	res, err := db.Read(t.Context(), driver.KindLock, string(key))
	if err != nil || len(res.Docs) != 1 {
		t.Fatal(res, err)
	}
	if _, err := db.Apply(
		t.Context(), driver.Change{Op: driver.Delete, IfRev: res.Docs[0].Rev, Doc: res.Docs[0]},
	); err != nil {
		t.Fatal(err)
	}
}

// Nothing says the others that a lock was deleted: they would wait for its owner for ever.
func TestDeletedLockIsCreatedAgainForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		eventually(t, time.Second, "b knows", func() bool { return b.View().Lock("g/k").Session == a.View().Session })
		deleteLock(t, db, "g/k")
		eventually(t, lease, "b knows that a has it no more", func() bool {
			l, ok := b.View().Locks["g/k"]
			return ok && l.Session == ""
		})
		b.claim(t, "g/k", rec.hold("b"))
		eventually(t, time.Second, "b runs it", func() bool { return rec.owner("g/k") == "b" })
		a.stop()
		b.stop()
	})
}

// The token of a key rises although its lock was deleted and the store's clock was set back.
func TestTokenRisesOverADeletedLockAndAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		db := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }))
		rec := newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		a.claim(t, "g/rises", rec.hold("a"))
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/rises") == "a" })
		before := rec.token("g/rises")
		back.Store(int64(time.Hour))
		time.Sleep(time.Second) // the new clock is learned
		deleteLock(t, db, "g/rises")
		eventually(t, lease, "stopped", func() bool { return rec.owner("g/rises") == "" })
		eventually(
			t, lease, "there again", func() bool { l, ok := a.View().Locks["g/rises"]; return ok && l.Session == "" },
		)
		a.claim(t, "g/rises", rec.hold("a"))
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/rises") == "a" })
		if got := rec.token("g/rises"); got <= before {
			t.Errorf("token %d after %d", got, before)
		}
		a.stop()
	})
}

// While answers are lost a replica is seldom without a claim under way. It must find out all the same what was done
// manually.
func TestDeletedLockIsNoticedByABusyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", rec.hold("a"))
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpApply && c.Changes[0].Doc.ID == "g/busy" {
				return memory.Verdict{Fault: memory.LoseRequest}
			}
			return memory.Verdict{}
		})
		ctx, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		busy.Go(func() { _, _ = a.LockWith(ctx, "g/busy", elect.LockOptions{WaitForever: true}, rec.hold("a")) })
		time.Sleep(lease)
		deleteLock(t, db, "g/k")
		eventually(t, lease, "stopped", func() bool { return rec.owner("g/k") == "" })
		stop()
		busy.Wait()
		a.heal()
		a.stop()
	})
}

// A process that claims and releases locks all the time is never sure how many are its own. It looks at each of them
// then.
func TestDeletedLockIsNoticedByWhoLocksAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		a.store.Fault(func(memory.Call) memory.Verdict {
			return memory.Verdict{Delay: 2 * time.Millisecond, AnswerDelay: 3 * time.Millisecond}
		})
		mustLock(t, a, "g/k", rec.hold("a"))
		ctx, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for i := range 8 {
			busy.Go(func() {
				for ctx.Err() == nil {
					done := make(chan struct{})
					ok, _ := a.Lock(ctx, elect.Key(fmt.Sprint("g/item", i)), func(context.Context, *elect.Lease) error {
						close(done)
						return nil
					})
					if ok {
						<-done
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(2 * lease)
		deleteLock(t, db, "g/k")
		deleted := time.Now()
		eventually(t, lease, "stopped", func() bool { return rec.owner("g/k") == "" })
		if took := time.Since(deleted); took > lease/2+lease/10 {
			t.Errorf("went on for %v, want T/2", took)
		}
		stop()
		busy.Wait()
		a.stop()
	})
}

// Nothing that other keys have under way, and no report, holds up a release.
func TestReleaseIsNotHeldUpByOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startNode(t, memory.New(), "a")
		mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
			<-ctx.Done()
			l.Report(elect.TaskStatus{State: "stopping"})
			return nil
		})
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpApply && elect.Key(c.Changes[0].Doc.ID).Group() == "slow" {
				return memory.Verdict{Delay: lease / 8}
			}
			return memory.Verdict{}
		})
		var others sync.WaitGroup
		for i := range 3 { // one after the other, so that one is always under way
			key := elect.NewKey("slow", strconv.Itoa(i))
			others.Go(func() {
				_, _ = a.Lock(t.Context(), key, func(context.Context, *elect.Lease) error { return nil })
			})
			time.Sleep(lease / 20)
		}
		begin := time.Now()
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 50*time.Millisecond {
			t.Errorf("released after %v", took)
		}
		others.Wait()
		a.stop()
	})
}

// A process that starts after a session was deleted has never seen how long its lease is. It must not take its keys by
// its own, shorter one.
func TestMissingSessionIsGivenTheLongestLeaseOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 4 * lease
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a", func(c *elect.Config) { c.LeaseDuration = long })
		a.track(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "a runs it", func() bool { return rec.owner("g/k") == "a" })
		a.cut()
		res, err := db.Read(t.Context(), driver.KindSession, a.View().Session)
		if err != nil || len(res.Docs) != 1 {
			t.Fatal(res, err)
		}
		if _, err := db.Apply(
			t.Context(), driver.Change{Op: driver.Delete, IfRev: res.Docs[0].Rev, Doc: res.Docs[0]},
		); err != nil {
			t.Fatal(err)
		}
		b := startNode(t, db, "b")
		b.track(t)
		mustLock(t, b, "g/other", rec.hold("b"))
		eventually(t, 3*long, "b runs it, after a's lease", func() bool { // the recorder fails when two run at once
			if rec.owner("g/k") != "b" {
				_, _ = b.LockWith(t.Context(), "g/k", elect.LockOptions{}, rec.hold("b"))
			}
			return rec.owner("g/k") == "b"
		})
		a.heal()
		a.stop()
		b.stop()
	})
}

// edit changes a document as a hand in the database would, with or without a new revision.
func edit(t *testing.T, db *memory.Store, kind driver.Kind, id string, change func(*driver.Doc)) {
	t.Helper()
	res, err := db.Read(t.Context(), kind, id)
	if err != nil || len(res.Docs) != 1 {
		t.Fatal(res, err)
	}
	d := res.Docs[0]
	ifRev := d.Rev
	d.Rev++
	d.WriterID = driver.WriterID{Session: "hand", Seq: time.Now().UnixNano()}
	change(&d)
	outs, err := db.Apply(t.Context(), driver.Change{IfRev: ifRev, Doc: d})
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatalf("%+v, %v", outs, err)
	}
}

// A lock that names a session that never was is found by everybody, not by its former owner alone.
func TestLockOfASessionThatNeverWasIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "b knows", func() bool { return b.View().Lock("g/k").Session == a.View().Session })
		time.Sleep(5 * lease) // so that the edited lock is none of those changed lately
		a.claim(t, "g/late", rec.hold("a"))
		eventually(
			t, time.Second, "b knows", func() bool { return b.View().Lock("g/late").Session == a.View().Session },
		)
		edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = "absent" })
		eventually(t, lease, "a has stopped it", func() bool { return rec.owner("g/k") == "" })
		eventually(t, 2*lease, "b sees it", func() bool { return b.View().Lock("g/k").Session == "absent" })
		eventually(t, 2*lease, "b may have it", func() bool {
			b.claim(t, "g/k", rec.hold("b"))
			return rec.owner("g/k") == "b"
		})
		a.stop()
		b.stop()
	})
}

// What an instance says of itself is written again when a hand has deleted or changed it.
func TestMemberIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		a.track(t)
		b.track(t)
		id := a.View().Session
		known := func() bool {
			res, err := db.Read(t.Context(), driver.KindMember, id)
			if err != nil || len(res.Docs) != 1 {
				return false
			}
			m, err := record.MemberFrom(res.Docs[0])
			return err == nil && m.Instance == "a" && m.Zone == ""
		}
		eventually(t, lease, "there", known)
		time.Sleep(2 * lease)
		for name, hand := range map[string]func(*driver.Doc){
			"malformed": func(d *driver.Doc) { d.Body = []byte(`{"instance":7}`) },
			"edited":    func(d *driver.Doc) { d.Body = []byte(`{"instance":"a","zone":"z"}`) },
		} {
			edit(t, db, driver.KindMember, id, hand)
			if known() {
				t.Fatal(name)
			}
			eventually(t, 2*lease, "repaired: "+name, known)
		}
		res, _ := db.Read(t.Context(), driver.KindMember, id)
		if _, err := db.Apply(
			t.Context(), driver.Change{Op: driver.Delete, IfRev: res.Docs[0].Rev, Doc: res.Docs[0]},
		); err != nil {
			t.Fatal(err)
		}
		eventually(t, 2*lease, "there again", known)
		eventually(t, 2*lease, "b knows", func() bool {
			for _, s := range b.View().Sessions {
				if s.ID == id {
					return s.Known && s.Member.Instance == "a"
				}
			}
			return false
		})
		a.stop()
		b.stop()
	})
}

// One slow reading, or one that was begun before the process was frozen, must not keep a replica from reading for
// three times as long.
func TestReadingGoesOnSoonAfterASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rec, a, b := twoNodes(t)
		b.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpList && c.Kind != driver.KindSession {
				return memory.Verdict{AnswerDelay: lease/6 - 20*time.Millisecond}
			}
			return memory.Verdict{}
		})
		a.claim(t, "g/1", rec.hold("a"))
		eventually(t, 2*lease, "b has read slowly", func() bool { return b.View().Lock("g/1").Session != "" })
		b.store.Fault(nil)
		a.claim(t, "g/2", rec.hold("a"))
		took := eventually(t, 2*lease, "b reads again", func() bool { return b.View().Lock("g/2").Session != "" })
		if limit := lease/4 + lease/6 + time.Second; took > limit {
			t.Errorf("b read again after %v, more than %v", took, limit)
		}
		a.stop()
		b.stop()
	})
}

// A lock deleted while it had no owner is a change that is not reported. One replica may believe that another owns it,
// which believes that the first is to claim it.
func TestUnownedLockIsMadeAgainWhenDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(
			t, time.Second, "b knows a for its owner",
			func() bool { return b.View().Lock("g/k").Session == a.View().Session },
		)
		b.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op == memory.OpList && c.Kind != driver.KindSession {
				return memory.Verdict{Fault: memory.LoseRequest}
			}
			return memory.Verdict{}
		})
		if err := a.Release(t.Context(), cluster.HandOver{Key: "g/k"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Second, "a has given it up", func() bool { return a.View().Lock("g/k").Session == "" })
		deleteLock(t, db, "g/k")
		b.store.Fault(nil)
		eventually(t, 2*lease, "b knows that it has no owner", func() bool {
			l, ok := b.View().Locks["g/k"]
			return ok && l.Session == ""
		})
		a.stop()
		b.stop()
	})
}

// A lock may be claimed while it is looked at: what the look then shows is older than the claim.
func TestARunIsNotJudgedByAReadOlderThanItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		a.track(t)
		a.claim(t, "g/k", func(context.Context, *elect.Lease) error { return nil })
		eventually(
			t, time.Second, "it has run", func() bool { l, ok := a.View().Locks["g/k"]; return ok && l.Session == "" },
		)

		var looked atomic.Bool
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if looked.Load() || c.Op != memory.OpRead || c.Kind != driver.KindLock {
				return memory.Verdict{}
			}
			edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = "" })
			looked.Store(true)
			return memory.Verdict{AnswerDelay: lease / 8}
		})
		edit(t, db, driver.KindLock, "g/k", func(d *driver.Doc) { d.Session = a.View().Session })
		eventually(t, 2*lease, "a looks at the lock that names it", looked.Load)
		mustLock(t, a, "g/k", rec.hold("a"))
		time.Sleep(lease)
		if rec.started() != 1 || rec.owner("g/k") != "a" {
			t.Errorf("%d starts; run by %q", rec.started(), rec.owner("g/k"))
		}
		a.stop()
	})
}

// A process that ended between the two writes of its creation leaves a member that no session belongs to. With a long
// lease it would make every wait for a missing session as long.
func TestAMemberWithoutASessionIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		ghost := record.Member{Session: "ghost", Instance: "g", Rev: 1, LeaseMS: (20 * time.Second).Milliseconds()}
		if _, err := db.Apply(
			t.Context(), driver.Change{Doc: ghost.Doc(driver.WriterID{Session: "ghost", Seq: 1})},
		); err != nil {
			t.Fatal(err)
		}
		// an hour in a few steps
		a := startNode(t, db, "a", func(c *elect.Config) { c.LeaseDuration = 10 * time.Minute })
		a.track(t)
		there := func(kind driver.Kind) bool {
			res, err := db.Read(t.Context(), kind, "ghost")
			return err != nil || len(res.Docs) > 0
		}
		time.Sleep(30 * time.Minute)
		if !there(driver.KindSession) || !there(driver.KindMember) {
			t.Error("not marked dead, or removed before others had the time to see it")
		}
		time.Sleep(2 * time.Hour)
		if there(driver.KindSession) || there(driver.KindMember) {
			t.Error("not removed")
		}
		a.stop()
	})
}
