package mutex_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// One holds it, and another gets it after that, under a larger token.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		first := must(t)(a.Mutex("m").Lock(t.Context()))
		_, err := b.Mutex("m").TryLock(t.Context())
		wantError(t, "try", err, mutex.ErrLocked)
		began := time.Now()
		_, err = b.Mutex("m").LockWithin(t.Context(), time.Second)
		wantError(t, "within a second", err, mutex.ErrLocked)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it waited %v, want 1s", took)
		}
		if first.Context().Err() != nil || first.Token() <= 0 {
			t.Errorf("token %d, %v", first.Token(), first.Context().Err())
		}
		got := make(chan *mutex.Held)
		go func() {
			h, err := b.Mutex("m").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		select {
		case <-got:
			t.Fatal("two hold it")
		default:
		}
		unlock(t, first)
		wantError(t, "context", context.Cause(first.Context()), elect.ErrReleased)
		second := <-got
		if second.Token() <= first.Token() {
			t.Errorf("tokens %d, %d: must rise", first.Token(), second.Token())
		}
		unlock(t, second)
		wantError(t, "unlock twice", second.Unlock(t.Context()), mutex.ErrNotHeld)
	})
}

// Calls get it in the order in which they asked, across processes.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var all []*mutex.Locks
		for i := range 4 {
			all = append(all, process(t, db.Client(), fmt.Sprint("p", i)))
		}
		first := must(t)(all[0].Mutex("m").Lock(t.Context()))
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				h, err := all[i%len(all)].Mutex("m").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				unlock(t, h)
			})
			time.Sleep(lease) // it is written by then
		}
		unlock(t, first)
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("order %v", order)
		}
	})
}

// One that gives up leaves the queue: those behind it do not wait for it.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b, c := process(t, db.Client(), "a"), process(t, db.Client(), "b"), process(t, db.Client(), "c")
		first := must(t)(a.Mutex("m").Lock(t.Context()))
		ctx, giveUp := context.WithCancel(t.Context())
		gave := make(chan error)
		go func() {
			_, err := b.Mutex("m").Lock(ctx)
			gave <- err
		}()
		time.Sleep(lease)
		got := make(chan *mutex.Held)
		go func() { got <- must(t)(c.Mutex("m").Lock(t.Context())) }()
		time.Sleep(lease)
		giveUp()
		wantError(t, "gave up", <-gave, context.Canceled)
		time.Sleep(time.Second)
		began := time.Now()
		unlock(t, first)
		unlock(t, <-got)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the hand-over took %v", took)
		}
	})
}

// The waiters of a process that dies are passed over once its session is dead, and so is a holder.
func TestDeadArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		dying := db.Client()
		a, b, c := process(t, dying, "a"), process(t, dying, "b"), process(t, db.Client(), "c")
		held := must(t)(a.Mutex("m").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = b.Mutex("m").Lock(ctx) }()
		time.Sleep(lease)
		got := make(chan *mutex.Held)
		go func() { got <- must(t)(c.Mutex("m").Lock(t.Context())) }()
		time.Sleep(lease)
		began := time.Now()
		_ = dying.Close(t.Context())
		<-held.Context().Done()
		if took := time.Since(began); took > 3*lease/4 {
			t.Errorf("the context ended after %v, want D = %v at most", took, 3*lease/4)
		}
		wantError(t, "cause", context.Cause(held.Context()), mutex.ErrLost)
		next := <-got
		if took := time.Since(began); took < 3*lease/4 || took > lease+time.Second {
			t.Errorf("it was taken over after %v, want after D and within T + 1 s", took)
		}
		unlock(t, next)
		wantError(t, "unlock what was lost", held.Unlock(t.Context()), mutex.ErrLost)
		cancel()
	})
}

// A thousand locks cost the heartbeat of one session, and nothing else.
func TestHeldLocksCostOneHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New().Client()
		a := process(t, db, "a")
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { must(t)(a.Mutex(fmt.Sprint("m", i)).Lock(t.Context())) })
		}
		wg.Wait()
		time.Sleep(lease)
		writes := map[driver.Kind]int{}
		var mu sync.Mutex
		db.Fault(func(c memory.Call) memory.Verdict {
			mu.Lock()
			defer mu.Unlock()
			for _, change := range c.Changes {
				writes[change.Doc.Kind]++
			}
			return memory.Verdict{}
		})
		time.Sleep(10 * lease)
		db.Fault(nil)
		mu.Lock()
		defer mu.Unlock()
		if heartbeats := writes[driver.KindSession]; heartbeats < 90 || heartbeats > 110 || len(writes) != 1 {
			t.Errorf("writes of ten leases: %v; want a hundred heartbeats", writes)
		}
	})
}

// A mutex has no task's document, and none that anybody counts.
func TestDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := process(t, db.Client(), "a")
		h := must(t)(a.Mutex("reports/monthly").Lock(t.Context()))
		is, err := record.MutexFrom(only(t, db, "reports/monthly"))
		if err != nil || len(is.Holders) != 1 || is.Holders[0].Token != h.Token() {
			t.Errorf("%+v, %v", is, err)
		}
		unlock(t, h)
		d := only(t, db, "reports/monthly")
		if d.Session != "" || d.Expires != time.Now().Add(24*time.Hour).UnixMilli() {
			t.Errorf("%+v", d)
		}
		members, err := db.List(t.Context(), driver.KindMember, driver.Query{})
		if err != nil || len(members.Docs) != 1 {
			t.Fatal(members, err)
		}
		if m, err := record.MemberFrom(members.Docs[0]); err != nil || !m.Client() {
			t.Errorf("%+v, %v: want a client", m, err)
		}
	})
}

func TestBadNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := process(t, memory.New(), "a")
		for _, name := range []string{"", strings.Repeat("x", elect.MaxMutexName+1), "a\x00b", "\xff"} {
			if _, err := a.Mutex(name).Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "name") {
				t.Errorf("%.20q: %v", name, err)
			}
		}
		for what, m := range map[string]mutex.Mutex{
			"holders: 0": a.Semaphore("s", 0), "owner": a.Mutex("m").Reentrant(""),
			"maximum hold time: 0s": a.Mutex("m").MaxHold(0), "minimum hold time": a.Mutex("m").HoldAtLeast(-1),
		} {
			if _, err := m.Lock(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
