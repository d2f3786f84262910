package elect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestBeforeItIsStartedEveryCallIsAnError(t *testing.T) {
	e, err := elect.New(elect.Config{
		Store: memory.New(), Member: elect.Member{Instance: "a"}, Clock: elect.GoClock(), Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	hold := func(context.Context, *elect.Lease) error { return nil }
	for name, call := range map[string]func() error{
		"Lock": func() error { _, err := e.Lock(t.Context(), "g/k", hold); return err },
		"Wait": func() error {
			_, err := e.LockWith(t.Context(), "g/k", elect.LockOptions{WaitForever: true}, hold)
			return err
		},
		"Unlock": func() error { return e.Unlock(t.Context(), "g/k") },
		"Close":  func() error { return e.Close(t.Context()) },
		"Track":  func() error { return e.Cluster().Track(t.Context(), "g") },
		"Drain":  func() error { return e.Cluster().Drain(t.Context()) },
	} {
		if err := call(); !errors.Is(err, elect.ErrNotRunning) {
			t.Errorf("%s: %v, want ErrNotRunning", name, err)
		}
	}
}

// Notes are best effort: before the start they block no caller, however many they are.
func TestNotesBeforeTheStartAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := elect.New(elect.Config{
			Store: memory.New(), Member: elect.Member{Instance: "a"}, Clock: elect.GoClock(), Logger: logr.Discard(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			e.Cluster().Note(record.Event{Type: record.EventMoved})
		}
	})
}

// Close may come a moment after Run has begun.
func TestCloseBesideRun(t *testing.T) {
	for range 300 {
		e, err := elect.New(elect.Config{
			Store: memory.New(), Member: elect.Member{Instance: "a"}, LeaseDuration: time.Second,
			Logger: logr.Discard(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- e.Run(t.Context()) }()
		for errors.Is(e.Close(t.Context()), elect.ErrNotRunning) {
			runtime.Gosched()
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

func TestWaitingForOnesOwnRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, memory.New(), "a")
		defer n.stop()
		unlock, closed, again := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		mustLock(t, n, "g/k", func(ctx context.Context, _ *elect.Lease) error {
			unlock <- n.Unlock(ctx, "g/k")
			closed <- n.Close(ctx)
			_, err := n.LockWith(ctx, "g/k", elect.LockOptions{Wait: time.Hour}, nil)
			again <- err
			return nil
		})
		if err := <-unlock; !errors.Is(err, elect.ErrInsideRun) {
			t.Errorf("Unlock: %v", err)
		}
		if err := <-closed; !errors.Is(err, elect.ErrInsideRun) {
			t.Errorf("Close: %v", err)
		}
		if err := <-again; !errors.Is(err, elect.ErrInsideRun) {
			t.Errorf("LockWith: %v", err)
		}
	})
}

func TestANegativeWaitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, memory.New(), "a")
		defer n.stop()
		_, err := n.LockWith(t.Context(), "g/k", elect.LockOptions{Wait: -time.Second}, nil)
		if err == nil || !strings.Contains(err.Error(), "WaitForever") {
			t.Errorf("%v, want an error that names WaitForever", err)
		}
	})
}

// Close and Unlock must not say that all is well when the store has acknowledged nothing.
func TestCloseAndUnlockSayWhenNothingWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New().Client(), newRecorder(t)
		e, err := elect.Start(t.Context(), elect.Config{
			Store: db, Member: elect.Member{Instance: "a"}, LeaseDuration: lease, Logger: logr.Discard(),
			Clock: elect.GoClock(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := e.Lock(t.Context(), "g/k", rec.hold("a")); !ok || err != nil {
			t.Fatal(ok, err)
		}
		db.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
		unlocked := make(chan error, 1)
		go func() { unlocked <- e.Unlock(t.Context(), "g/k") }()
		synctest.Wait()
		if err := e.Close(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Close: %v, want ErrUnavailable", err)
		}
		if err := <-unlocked; err == nil {
			t.Error("Unlock: nil")
		}
	})
}

// Each key without a group had a counter of its own, for ever, and every refresh listed them all.
func TestKeysWithoutAGroupCostOneCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		for i := range 20 {
			mustLock(t, a, elect.Key(fmt.Sprintf("key-%d", i)), rec.hold("a"))
		}
		waited := make(chan bool, 1)
		go func() {
			ok, _ := b.LockWith(t.Context(), "key-7", elect.LockOptions{WaitForever: true}, rec.hold("b"))
			waited <- ok
		}()
		time.Sleep(2 * time.Second)
		if err := a.Unlock(t.Context(), "key-7"); err != nil {
			t.Fatal(err)
		}
		if !<-waited {
			t.Error("the waiter did not get the key")
		}
		a.stop()
		b.stop()
		reply, err := db.List(t.Context(), driver.KindGroup, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.Docs) > 3 { // of members, of events, and of all these keys
			t.Errorf("%d counters: %v", len(reply.Docs), reply.Docs)
		}
	})
}

// A change that the store cannot take must hold up no other.
func TestAnInvalidReservationIsRefusedAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, rec := startNode(t, memory.New(), "a"), newRecorder(t)
		defer n.stop()
		n.track(t)
		n.claim(t, "g/1", rec.hold("a"))
		eventually(t, lease, "running", func() bool { return rec.owner("g/1") == "a" })
		err := n.Release(t.Context(), cluster.HandOver{Key: "g/1", Next: "\xff"})
		if !errors.Is(err, driver.ErrMalformed) {
			t.Errorf("GiveUp: %v, want ErrMalformed", err)
		}
		if err := n.Unlock(t.Context(), "g/1"); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	})
}

func TestTheLastViewHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, rec := startNode(t, memory.New(), "a"), newRecorder(t)
		n.track(t)
		n.claim(t, "g/1", rec.hold("a"))
		eventually(t, lease, "running", func() bool { return len(n.View().Held) == 1 })
		n.stop()
		if v := n.View(); len(v.Held) > 0 || v.Open {
			t.Errorf("the last view: open %v, holds %v", v.Open, v.Held)
		}
	})
}

func TestConfigurationIsCloned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caps := map[string]int{"g": 1}
		n := startNode(t, memory.New(), "a", func(c *elect.Config) { c.Member.Caps = caps })
		defer n.stop()
		rec := newRecorder(t)
		mustLock(t, n, "g/1", rec.hold("a"))
		caps["g"] = 5
		if ok, err := n.Lock(t.Context(), "g/2", rec.hold("a")); ok || !errors.Is(err, elect.ErrCapReached) {
			t.Errorf("Lock = %v, %v, want ErrCapReached", ok, err)
		}
	})
}
