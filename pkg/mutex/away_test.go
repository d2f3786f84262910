package mutex_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func hang(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} }

// When the time to wait is over, the error says whether others have the lock or the store is away.
func TestLockWithinSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		away := db.Client()
		away.Fault(hang)
		a, b := process(t, db.Client(), "a"), process(t, away, "b")
		_, err := b.Mutex("m").LockWithin(t.Context(), 3*lease)
		wantUnanswered(t, "away from the beginning", err)
		if err != nil && !strings.Contains(err.Error(), `lock "m": not within 12s: the store has not answered`) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), lease)
		defer cancel()
		_, err = b.Mutex("m").Lock(ctx)
		wantUnanswered(t, "a context of the caller", err)
		_, err = b.Mutex("m").HoldAtLeast(time.Minute).LockWithin(t.Context(), lease)
		wantUnanswered(t, "that waits for the store's clock", err)

		away.Fault(nil)
		held := must(t)(a.Mutex("m").Lock(t.Context()))
		_, err = b.Mutex("m").LockWithin(t.Context(), lease)
		wantError(t, "held by another", err, mutex.ErrLocked)
		_, err = b.Mutex("m").LockWithin(t.Context(), -time.Second)
		wantError(t, "no time at all", err, mutex.ErrLocked)

		waits := ask(t.Context(), func(ctx context.Context) (*mutex.Held, error) {
			return b.Mutex("m").LockWithin(ctx, 5*lease)
		})
		away.Fault(hang)
		wantError(t, "away after its ticket was written", <-waits.err, mutex.ErrLocked)
		_, err = b.Mutex("m").LockWithin(t.Context(), lease)
		wantUnanswered(t, "away again", err)
		away.Fault(nil)
		time.Sleep(lease)
		unlock(t, held)
		unlock(t, must(t)(b.Mutex("m").Lock(t.Context())))
	})
}

// clockless is a store that shows no clock.
type clockless struct{ store.Store }

func (s clockless) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := s.Store.Read(ctx, kind, ids...)
	reply.Now, reply.Wall = 0, 0
	return reply, err
}

func (s clockless) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	reply, err := s.Store.List(ctx, kind, q)
	reply.Now, reply.Wall = 0, 0
	return reply, err
}

// Where the store has no clock, what others would have to wait for by it is refused. What was held is held on.
func TestStoreWithoutClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, clockless{db.Client()}, "a"), process(t, clockless{db.Client()}, "b")
		_, err := a.Mutex("m").HoldAtLeast(time.Minute).TryLock(t.Context()) // before anything is known of the store
		wantError(t, "hold at least", err, mutex.ErrNoClock)
		_, err = a.RWMutex("m").HoldAtLeast(time.Minute).TryLock(t.Context())
		wantError(t, "a writer", err, mutex.ErrNoClock)
		if found, err := db.List(t.Context(), driver.KindMutex, driver.Query{}); err != nil || len(found.Docs) > 0 {
			t.Errorf("written: %+v, %v", found.Docs, err)
		}
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		wantError(t, "detach", h.Detach(t.Context(), time.Now().Add(time.Minute)), mutex.ErrNoClock)
		goesOn(t, h)
		_, err = b.Mutex("m").TryLock(t.Context())
		wantError(t, "another", err, mutex.ErrLocked)
		unlock(t, h)
		unlock(t, must(t)(b.Mutex("m").TryLock(t.Context())))
	})
}

func goesOn(t *testing.T, h *mutex.Held) {
	t.Helper()
	if err := h.Context().Err(); err != nil {
		t.Errorf("it is not held any more: %v", context.Cause(h.Context()))
	}
}

// A detachment that is refused leaves the lock held, to be unlocked later.
func TestDetachRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		later := time.Now().Add(time.Hour)
		reader := must(t)(a.RWMutex("r").RLock(t.Context()))
		wantError(t, "a reader", reader.Detach(t.Context(), later), mutex.ErrShared)
		goesOn(t, reader)
		unlock(t, reader)
		unlock(t, must(t)(b.RWMutex("r").TryLock(t.Context())))

		mine := a.Mutex("m").Reentrant("me")
		one, two := must(t)(mine.Lock(t.Context())), must(t)(mine.Lock(t.Context()))
		if err := one.Detach(t.Context(), time.Now()); err == nil {
			t.Error("detached into the past")
		}
		wantError(t, "one of two", one.Detach(t.Context(), later), mutex.ErrShared)
		goesOn(t, one)
		unlock(t, two)
		if err := one.Detach(t.Context(), time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		wantError(t, "after that", one.Unlock(t.Context()), mutex.ErrNotHeld)
		_, err := b.Mutex("m").TryLock(t.Context())
		wantError(t, "kept", err, mutex.ErrLocked)
	})
}

// Unlock whose context has ended says so, and goes on behind. No one waits for the dead.
func TestUnlockGoesOnBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		next := ask(t.Context(), b.Mutex("m").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Unlock(ctx); err != nil {
			wantError(t, "unlock", err, context.Canceled)
		}
		unlock(t, next.gets(t, "the next"))
	})
}

// Of calls that give up while they are granted nothing stays: neither a holder nor a ticket. No two hold it at once, and
// everybody who has the time gets it.
func TestGiveUpMeetsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		slow := func() *memory.Store { // so that calls end at any point of a write
			client := db.Client()
			client.Fault(func(memory.Call) memory.Verdict {
				return memory.Verdict{Delay: time.Millisecond, AnswerDelay: time.Millisecond}
			})
			return client
		}
		a, b := process(t, slow(), "a"), process(t, slow(), "b")
		var inside atomic.Int32
		var calls sync.WaitGroup
		const many, patient = 200, 20 // which of the others are granted is up to the scheduler: it may be none
		for i := range many + patient {
			l := []*mutex.Locks{a, b}[i%2]
			patience := time.Duration(i) * time.Millisecond / 2
			if i >= many {
				patience = time.Minute
			}
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				h, err := l.Mutex("m").Lock(ctx)
				if err != nil {
					if i >= many {
						t.Error("within a minute: ", err)
					}
					return
				}
				if inside.Add(1) > 1 {
					t.Error("two hold it")
				}
				inside.Add(-1)
				if err := h.Unlock(ctx); err != nil {
					wantError(t, "unlock", err, context.DeadlineExceeded)
				}
			})
		}
		calls.Wait()
		time.Sleep(lease)
		h := must(t)(b.Mutex("m").TryLock(t.Context()))
		unlock(t, h)
	})
}

// The holds of an owner are counted, however many goroutines of it lock and unlock at once. Another owner never has it
// meanwhile.
func TestReentrantCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := process(t, db.Client(), "a")
		var inside [2]atomic.Int32
		var calls sync.WaitGroup
		for i := range 200 {
			me := i % 2
			calls.Go(func() {
				h := must(t)(a.Mutex("m").Reentrant([]string{"x", "y"}[me]).Lock(t.Context()))
				inside[me].Add(1)
				if inside[1-me].Load() > 0 {
					t.Error("two owners hold it")
				}
				time.Sleep(time.Millisecond)
				inside[me].Add(-1)
				unlock(t, h)
			})
		}
		calls.Wait()
		unlock(t, must(t)(a.Mutex("m").TryLock(t.Context())))
	})
}
