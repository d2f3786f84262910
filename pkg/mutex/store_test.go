package mutex_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// elector is one that is not started, and its locks.
func elector(t *testing.T, s store.Store) (*elect.Elector, *mutex.Locks) {
	t.Helper()
	e, err := elect.New(elect.Config{
		Store: s, Member: elect.Member{Instance: "a"}, LeaseDuration: lease, Clock: elect.GoClock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, mutex.New(e)
}

func write(t *testing.T, s store.Store, c driver.Change) {
	t.Helper()
	if outs, err := s.Apply(t.Context(), c); err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
}

// Unused for a day it is deleted. Its tokens rise all the same, also where the clock has not reached them.
func TestTokensRiseOverDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := process(t, db.Client(), "a")
		unlock(t, must(t)(a.Mutex("m").Lock(t.Context())))
		d := only(t, db, "m")
		ifRev, ahead := d.Rev, time.Now().Add(time.Hour).UnixMilli()
		d.Rev, d.WriterID, d.Expires = ahead, driver.WriterID{Session: "hand", Seq: 1}, time.Now().UnixMilli()+1
		write(t, db, driver.Change{IfRev: ifRev, Doc: d})
		time.Sleep(6 * time.Minute) // until it is cleaned up, and not kept in memory any more
		if reply, err := db.Read(t.Context(), driver.KindMutex, "locks/m"); err != nil || len(reply.Docs) != 0 {
			t.Fatalf("not deleted: %+v, %v", reply.Docs, err)
		}
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		if h.Token() <= ahead {
			t.Errorf("token %d, want above %d", h.Token(), ahead)
		}
		unlock(t, h)
	})
}

// What is held does not expire. What is kept does a day after that.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := process(t, db.Client(), "a")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		if at := only(t, db, "m").Expires; at != 0 {
			t.Errorf("held, and expires at %d", at)
		}
		until := time.Now().Add(48 * time.Hour)
		if err := h.Detach(t.Context(), until); err != nil {
			t.Fatal(err)
		}
		if at := only(t, db, "m").Expires; at != until.Add(24*time.Hour).UnixMilli() {
			t.Errorf("kept until %d, and expires at %d", until.UnixMilli(), at)
		}
	})
}

// only is the document of a lock.
func only(t *testing.T, db store.Store, name string) driver.Doc {
	t.Helper()
	reply, err := db.Read(t.Context(), driver.KindMutex, "locks/"+name)
	if err != nil || len(reply.Docs) != 1 {
		t.Fatal(reply, err)
	}
	return reply.Docs[0]
}

// In a store that a cluster was moved away from no one gets a lock.
func TestMovedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		mark := func(state record.MoveState) {
			m, now, err := record.ReadMove(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			ifRev := m.Rev
			m.ID, m.State, m.Other = "move", state, "sqlite:other.db"
			write(t, db, driver.Change{IfRev: ifRev, Doc: m.Doc(driver.WriterID{Session: string(state), Seq: 1}, now)})
		}
		e, locks := elector(t, db.Client())
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease) // its session is there before the mark
		mark(record.MoveLeft)
		_, err := locks.Mutex("m").LockWithin(t.Context(), 2*lease)
		wantUnanswered(t, "moved", err)
		if found, err := db.List(t.Context(), driver.KindMutex, driver.Query{}); err != nil || len(found.Docs) != 0 {
			t.Errorf("written: %+v, %v", found.Docs, err)
		}
		mark(record.MoveStays)
		unlock(t, must(t)(locks.Mutex("m").Lock(t.Context())))
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A document that was edited so that its holder is gone ends the hold. Others may have it by then.
func TestHolderRemovedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		is, err := record.MutexFrom(only(t, db, "m"))
		if err != nil {
			t.Fatal(err)
		}
		ifRev := is.Rev
		is.Holders, is.Rev = nil, is.Rev+1
		write(t, db, driver.Change{
			IfRev: ifRev, Doc: record.MutexDoc("locks/m", is, driver.WriterID{Session: "hand", Seq: 1}, 0),
		})
		next := must(t)(b.Mutex("m").Lock(t.Context()))
		if next.Token() <= h.Token() {
			t.Errorf("token %d after %d", next.Token(), h.Token())
		}
		waiter := ask(t.Context(), a.Mutex("m").Lock) // it looks, and sees
		wantError(t, "cause", context.Cause(h.Context()), mutex.ErrLost)
		unlock(t, next)
		unlock(t, waiter.gets(t, "the waiter"))
	})
}

// No lost answer gives the lock to two, or to none.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		unreliable := db.Client()
		n := 0
		unreliable.Fault(func(c memory.Call) memory.Verdict {
			if len(c.Changes) == 0 || c.Changes[0].Doc.Kind != driver.KindMutex {
				return memory.Verdict{}
			}
			n++
			return memory.Verdict{Fault: []memory.Fault{
				memory.LoseAnswer, memory.LoseRequest, memory.None,
			}[n%3]}
		})
		a, b := process(t, unreliable, "a"), process(t, db.Client(), "b")
		last := int64(0)
		for range 20 {
			for _, l := range []*mutex.Locks{a, b} {
				h := must(t)(l.Mutex("m").Lock(t.Context()))
				if h.Token() <= last || h.Context().Err() != nil {
					t.Errorf("token %d after %d, %v", h.Token(), last, h.Context().Err())
				}
				last = h.Token()
				unlock(t, h)
			}
		}
		if is, err := record.MutexFrom(only(t, db, "m")); err != nil || len(is.Holders)+len(is.Queue) != 0 {
			t.Errorf("left %+v, %v", is, err)
		}
	})
}

// The locks of an elector are held by its session, beside its keys.
func TestOnElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		e, locks := elector(t, db.Client())
		_, err := locks.Mutex("m").Lock(t.Context())
		wantError(t, "before it is started", err, elect.ErrNotRunning)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := must(t)(locks.Mutex("m").Lock(t.Context()))
		doc, err := record.MutexFrom(only(t, db, "m"))
		if err != nil {
			t.Fatal(err)
		}
		sessions, err := db.List(t.Context(), driver.KindSession, driver.Query{})
		if err != nil || len(sessions.Docs) != 1 || sessions.Docs[0].ID != doc.Holders[0].Session {
			t.Errorf("sessions %+v, %v; held by %+v", sessions.Docs, err, doc.Holders)
		}
		if err := locks.Close(t.Context()); err != nil || h.Context().Err() != nil {
			t.Errorf("close: %v, %v", err, h.Context().Err())
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantError(t, "cause", context.Cause(h.Context()), mutex.ErrClosed)
	})
}

// Mutexes whose holders and waiters have died, and that no one asks for again, go from the store. Those that the living
// hold stay, and lose the dead alone.
func TestMutexesOfTheDeadAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		living, doomed := leased(t, db.Client(), "living", 2*time.Minute), db.Client()
		dying := leased(t, doomed, "dying", 2*time.Minute)
		shared := must(t)(living.Semaphore("shared", 3).Lock(t.Context()))
		held := must(t)(living.Mutex("held").Lock(t.Context()))
		for _, m := range []mutex.Mutex{dying.Mutex("alone"), dying.Semaphore("two", 2), dying.Semaphore("shared", 3)} {
			must(t)(m.Lock(t.Context()))
		}
		must(t)(dying.Semaphore("two", 2).Lock(t.Context()))
		for _, name := range []string{"held", "alone"} {
			go func() { _, _ = dying.Mutex(name).Lock(t.Context()) }()
		}
		synctest.Wait()
		doomed.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })

		time.Sleep(2 * time.Hour)
		wantDocs(t, db, map[string][2]int{"alone": {0, 0}, "two": {0, 0}, "held": {1, 0}, "shared": {1, 0}})
		age(t, db, "alone")
		age(t, db, "two")
		time.Sleep(time.Hour)
		wantDocs(t, db, map[string][2]int{"held": {1, 0}, "shared": {1, 0}})
		unlock(t, shared)
		unlock(t, held)
		doomed.Fault(nil)
	})
}

// age has a mutex that is kept for a day, as one without holders is, be a day older: a day of polls takes long.
func age(t *testing.T, db *memory.Store, name string) {
	t.Helper()
	const day = 24 * time.Hour
	d := only(t, db, name)
	if left := time.Until(time.UnixMilli(d.Expires)); left > day || left < day-2*time.Hour {
		t.Errorf("%s expires in %v, want it a day after its last holder", name, left)
	}
	older := d
	older.Rev, older.WriterID = d.Rev+1, driver.WriterID{Session: "test", Seq: 1}
	older.Expires -= day.Milliseconds()
	write(t, db, driver.Change{IfRev: d.Rev, Doc: older})
}

// wantDocs says which mutexes there are, with how many holders and tickets.
func wantDocs(t *testing.T, db *memory.Store, want map[string][2]int) {
	t.Helper()
	all, err := db.List(t.Context(), driver.KindMutex, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all.Docs {
		is, err := record.MutexFrom(d)
		name := record.MutexName(d.ID)
		names = append(names, name)
		if got := [2]int{len(is.Holders), len(is.Queue)}; err != nil || got != want[name] {
			t.Errorf("%s has %d holders and %d tickets, want %v: %v", name, got[0], got[1], want[name], err)
		}
	}
	if len(names) != len(want) {
		t.Errorf("mutexes %v, want %d", slices.Sorted(slices.Values(names)), len(want))
	}
}
