package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// ask writes what an operator asks for; take takes it back.
func (c *fleet) ask(o record.Override) {
	c.t.Helper()
	var before int64
	if res, err := c.store.Read(c.t.Context(), driver.KindOverride, o.ID()); err == nil && len(res.Docs) > 0 {
		before = res.Docs[0].Rev
	}
	o.Rev, o.At, o.By = max(time.Now().UnixMilli(), before+1), time.Now().UnixMilli(), "test"
	c.apply(driver.Change{IfRev: before, Doc: o.Doc(driver.WriterID{Session: "operator", Seq: o.Rev})})
}

func (c *fleet) take(o record.Override) {
	c.t.Helper()
	res, err := c.store.Read(c.t.Context(), driver.KindOverride, o.ID())
	if err != nil || len(res.Docs) == 0 {
		c.t.Fatal("not there:", o, err)
	}
	c.apply(driver.Change{Op: driver.Delete, IfRev: res.Docs[0].Rev, Doc: o.Doc(driver.WriterID{})})
}

func (c *fleet) apply(change driver.Change) {
	c.t.Helper()
	outs, err := c.store.Apply(c.t.Context(), change)
	if err != nil || outs[0].Status != driver.Applied {
		c.t.Fatal(outs, err)
	}
}

func (c *fleet) ownerOf(key elect.Key) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[key]
}

func (c *fleet) ownedBy(name string) []elect.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []elect.Key
	for key, owner := range c.owner {
		if owner == name {
			keys = append(keys, key)
		}
	}
	return keys
}

func (c *fleet) tokenOf(key elect.Key) int64 {
	c.t.Helper()
	return c.lockOf(key).Token
}

func (c *fleet) lockOf(key elect.Key) record.Lock {
	c.t.Helper()
	res, err := c.store.Read(context.Background(), driver.KindLock, string(key))
	if err != nil || len(res.Docs) == 0 {
		c.t.Fatal("no lock of", key, err)
	}
	lock, err := record.LockFrom(res.Docs[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return lock
}

// knows says whether the replica has read an override.
func (r *replica) knows(o record.Override) bool {
	return slices.ContainsFunc(
		r.elector.Cluster().View().Overrides, func(known record.Override) bool { return known.ID() == o.ID() },
	)
}

func (c *fleet) stopAll(replicas ...*replica) {
	for _, r := range replicas {
		r.stop()
	}
}

func TestADrainedInstanceOwnsNothingUntilItIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		a, b := c.start("a", 0, 20), c.start("b", 0, 20)
		c.eventually(5*time.Second, "10 each", c.even(2, 20))
		drain := record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a"}
		c.ask(drain)
		c.eventually(5*time.Second, "all on b", func() bool { return len(c.ownedBy("b")) == 20 })
		if lock := c.lockOf("g/t000"); lock.Reason != record.ReasonDrain && lock.From == "a" {
			t.Errorf("%+v: want the reason Drain", lock)
		}
		a.stop()
		a = c.start("a", 0, 20)
		time.Sleep(2 * lease)
		if n := len(c.ownedBy("a")); n != 0 {
			t.Errorf("owns %d keys after a restart, and is drained", n)
		}
		c.take(drain)
		c.eventually(5*time.Second, "10 each", c.even(2, 20))
		c.stopAll(a, b)
	})
}

func TestACordonedInstanceKeepsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		a, b, d := c.start("a", 0, 30), c.start("b", 0, 30), c.start("c", 0, 30)
		c.eventually(5*time.Second, "10 each", c.even(3, 30))
		cordon := record.Override{Kind: record.OverrideCordon, Scope: record.ScopeInstance, Name: "a"}
		c.ask(cordon)
		c.eventually(5*time.Second, "all know the cordon", func() bool {
			return a.knows(cordon) && b.knows(cordon) && d.knows(cordon)
		})
		moves := c.movesIn(func() {
			b.drain(t)
			c.eventually(5*time.Second, "all run", func() bool { return c.total() == 30 })
		})
		if spread := c.spread(); spread["a"] != 10 || spread["c"] != 20 || moves != 10 {
			t.Errorf("%v after %d moves, want 10 on a, which is cordoned, and 20 on c", spread, moves)
		}
		e := c.start("e", 0, 30)
		c.eventually(5*time.Second, "10 each on c and e", func() bool {
			spread := c.spread()
			return spread["a"] == 10 && spread["c"] == 10 && spread["e"] == 10
		})
		c.take(cordon)
		d.drain(t)
		c.eventually(5*time.Second, "spread over a and e", c.even(2, 30))
		c.stopAll(a, e)
	})
}

func TestAPausedGroupRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		pause := record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"}
		c.ask(pause)
		a := c.start("a", 0, 10)
		time.Sleep(lease)
		if n := c.total(); n != 0 {
			t.Errorf("%d keys run", n)
		}
		c.take(pause)
		c.eventually(5*time.Second, "all run", c.even(1, 10))
		c.ask(pause)
		c.eventually(5*time.Second, "none runs", func() bool { return c.total() == 0 })
		if lock := c.lockOf("g/t000"); lock.Reason != record.ReasonPaused || !lock.Suspended {
			t.Errorf("%+v: want it suspended, for the reason Paused", lock)
		}
		c.stopAll(a)
	})
}

func TestAMoveIsOneHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		a, b := c.start("a", 0, 20), c.start("b", 0, 20)
		c.eventually(5*time.Second, "10 each", c.even(2, 20))
		time.Sleep(lease)
		key := c.ownedBy("a")[0]
		move := record.Override{
			Kind: record.OverrideMove, Scope: record.ScopeTask, Name: string(key), To: "b", Token: c.tokenOf(key),
		}
		c.ask(move)
		c.eventually(5*time.Second, "moved", func() bool { return c.ownerOf(key) == "b" })
		lock := c.lockOf(key)
		if lock.Reason != record.ReasonMove || lock.From != "a" {
			t.Errorf("%+v: want the reason Move", lock)
		}
		c.eventually(5*time.Second, "10 each", c.even(2, 20))

		// The request is over: the key goes where it is needed, and stays there.
		b.drain(t)
		c.eventually(5*time.Second, "all on a", c.even(1, 20))
		b = c.start("b", 0, 20)
		c.eventually(5*time.Second, "10 each", c.even(2, 20))
		owner := c.ownerOf(key)
		if moves := c.movesIn(func() { time.Sleep(2 * lease) }); moves != 0 || c.ownerOf(key) != owner {
			t.Errorf("%d moves of a request that is over", moves)
		}

		// One to an instance without capacity changes nothing.
		full := c.start("full", 0, 0)
		c.ask(record.Override{
			Kind: record.OverrideMove, Scope: record.ScopeTask, Name: string(key), To: "nowhere", Token: c.tokenOf(key),
		})
		if moves := c.movesIn(func() { time.Sleep(2 * lease) }); moves != 0 {
			t.Errorf("%d moves to an instance that is not there", moves)
		}
		c.stopAll(a, b, full)
	})
}

// While two revisions live side by side held keys stay. Who knows that the update is over can say so.
func TestARebalanceDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFleet(t)
		var all []*replica
		for i := range 2 {
			all = append(all, c.start(fmt.Sprint("old", i), 0, 30))
		}
		c.eventually(5*time.Second, "15 each", c.even(2, 30))
		all = append(all, c.startRevision("new", "2", 30))
		time.Sleep(4 * lease)
		if n := len(c.ownedBy("new")); n != 0 {
			t.Errorf("%d keys moved to the new revision while the update may be under way", n)
		}
		c.ask(record.Override{Kind: record.OverrideRebalance, Scope: record.ScopeGroup, Name: "g"})
		c.eventually(5*time.Second, "10 each", c.even(3, 30))
		c.stopAll(all...)
	})
}
