package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// operation is what a store is asked for.
type operation struct {
	write bool
	kind  store.Kind
}

// refusing is a store that answers one kind of operation with an error, for as long as there is one.
type refusing struct {
	store.Store

	of  operation
	why atomic.Pointer[error]
}

func (s *refusing) set(why error) { s.why.Store(&why) }

func (s *refusing) refuses(of operation) error {
	if why := s.why.Load(); why != nil && of == s.of {
		return *why
	}
	return nil
}

func (s *refusing) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if why := s.refuses(operation{false, kind}); why != nil {
		return store.Reply{}, why
	}
	return s.Store.Read(ctx, kind, ids...)
}

func (s *refusing) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	for _, c := range changes {
		if why := s.refuses(operation{true, c.Doc.Kind}); why != nil {
			return store.AllUnknown(len(changes), why), nil
		}
	}
	return s.Store.Apply(ctx, changes...)
}

// needed are the operations without which nobody gets a lock for the first time.
var needed = map[string]operation{
	"read the lock":           {false, store.KindMutex},
	"read the tokens deleted": {false, store.KindGroup},
	"write the lock":          {true, store.KindMutex},
	"write the session":       {true, store.KindSession},
}

type lockFunc func(ctx context.Context) (*mutex.Held, error)

// waysOf are the ways to take a lock m. A call that has no limit of its own gets one.
func waysOf(l *mutex.Locks, limit time.Duration) map[string]lockFunc {
	limited := func(lock lockFunc) lockFunc {
		return func(ctx context.Context) (*mutex.Held, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return lock(ctx)
		}
	}
	ways := map[string]lockFunc{}
	for name, m := range map[string]mutex.Mutex{
		"mutex": l.Mutex("m"), "semaphore": l.Semaphore("m", 3), "unfair": l.Mutex("m").Unfair(),
		"reentrant": l.Mutex("m").Reentrant("me"), "max hold": l.Mutex("m").MaxHold(time.Hour),
		"hold at least": l.Mutex("m").HoldAtLeast(time.Second),
	} {
		ways[name+" Lock"], ways[name+" TryLock"] = limited(m.Lock), limited(m.TryLock)
		for _, d := range []time.Duration{0, limit} {
			ways[fmt.Sprintf("%s LockWithin %v", name, d)] = func(ctx context.Context) (*mutex.Held, error) {
				return m.LockWithin(ctx, d)
			}
		}
	}
	rw := l.RWMutex("m")
	ways["write Lock"], ways["write TryLock"] = limited(rw.Lock), limited(rw.TryLock)
	ways["read Lock"], ways["read TryLock"] = limited(rw.RLock), limited(rw.TryRLock)
	for _, d := range []time.Duration{0, limit} {
		ways[fmt.Sprintf("write LockWithin %v", d)] = func(ctx context.Context) (*mutex.Held, error) {
			return rw.LockWithin(ctx, d)
		}
		ways[fmt.Sprintf("read LockWithin %v", d)] = func(ctx context.Context) (*mutex.Held, error) {
			return rw.RLockWithin(ctx, d)
		}
	}
	return ways
}

var errTable = fmt.Errorf("the table is locked: %w", store.ErrUnavailable)

// Whatever the store fails at, and however a lock is asked for: the error is what the store has said. Nobody is said to
// hold the lock. It is free for the first call after that.
func TestErrorsHaveTheLastErrorOfTheStore(t *testing.T) {
	everyWay(t, func(t *testing.T, db *refusing, lock lockFunc) {
		t.Helper()
		db.set(errTable)
		_, err := lock(t.Context())
		wantUnanswered(t, "away", err)
		wantError(t, "away", err, errTable)
		db.set(nil)
		time.Sleep(lease)
		unlock(t, must(t)(lock(t.Context())))
	})
}

// What will last ends a call at once, before its time is over.
func TestLastingRefusalsEndCalls(t *testing.T) {
	for _, lasting := range []error{store.ErrInvalid, store.ErrSchema, store.ErrSettings} {
		t.Run(lasting.Error(), func(t *testing.T) {
			everyWay(t, func(t *testing.T, db *refusing, lock lockFunc) {
				t.Helper()
				why := fmt.Errorf("as the server says: %w", lasting)
				db.set(why)
				began := time.Now()
				_, err := lock(t.Context())
				wantError(t, "refused", err, why)
				if took := time.Since(began); took > time.Second || errors.Is(err, mutex.ErrLocked) {
					t.Errorf("after %v: %v", took, err)
				}
				db.set(nil)
				time.Sleep(lease)
				unlock(t, must(t)(lock(t.Context())))
			})
		})
	}
}

// patience is how long calls wait that have a limit.
const patience = 3 * lease

// everyWay runs a test for every way to take a lock with every operation that fails.
func everyWay(t *testing.T, test func(t *testing.T, db *refusing, lock lockFunc)) {
	t.Helper()
	for where, of := range needed {
		for way := range waysOf(&mutex.Locks{}, patience) {
			t.Run(where+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db := &refusing{Store: memory.New().Client(), of: of}
					test(t, db, waysOf(process(t, db, "a"), patience)[way])
				})
			})
		}
	}
}

// A lock that others hold stays locked when the store fails after that, and the error says both. Once the store has
// answered, it is locked and nothing else.
func TestLockedAndThenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		failing := &refusing{Store: db.Client(), of: operation{false, store.KindMutex}}
		a, b := process(t, db.Client(), "a"), process(t, failing, "b")
		held := must(t)(a.Mutex("m").Lock(t.Context()))
		waits := ask(t.Context(), func(ctx context.Context) (*mutex.Held, error) {
			return b.Mutex("m").LockWithin(ctx, 5*lease)
		})
		failing.set(errTable)
		err := <-waits.err
		wantError(t, "away after its ticket was written", err, mutex.ErrLocked)
		wantError(t, "away after its ticket was written", err, errTable)
		failing.set(nil)
		_, err = b.Mutex("m").LockWithin(t.Context(), 2*lease)
		wantError(t, "it answers", err, mutex.ErrLocked)
		if errors.Is(err, elect.ErrUnavailable) {
			t.Errorf("it answers: %v", err)
		}
		unlock(t, held)
	})
}

// A call that waits for the first one of its owner fails with what the store says to that.
func TestAnOwnersSecondCallHasTheErrorOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &refusing{Store: memory.New().Client(), of: needed["write the lock"]}
		mine := process(t, db, "a").Mutex("m").Reentrant("me")
		db.set(errTable)
		first := ask(t.Context(), func(ctx context.Context) (*mutex.Held, error) { return mine.LockWithin(ctx, 3*lease) })
		_, err := mine.LockWithin(t.Context(), 2*lease)
		wantUnanswered(t, "the second", err)
		wantError(t, "the second", err, errTable)
		wantError(t, "the first", <-first.err, errTable)
		db.set(nil)
		time.Sleep(lease)
		unlock(t, must(t)(mine.Lock(t.Context())))
	})
}

// A free lock is obtained without time to wait, also by the first use, which begins the session.
func TestLockWithinNoTime(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		synctest.Test(t, func(t *testing.T) {
			a := process(t, memory.New().Client(), "a")
			unlock(t, must(t)(a.Mutex("m").LockWithin(t.Context(), d)))
			unlock(t, must(t)(a.RWMutex("m").RLockWithin(t.Context(), d)))
		})
	}
}

// slow is a store that takes a time to read locks.
type slow struct {
	store.Store

	takes time.Duration
}

func (s slow) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if kind == store.KindMutex {
		time.Sleep(s.takes)
	}
	return s.Store.Read(ctx, kind, ids...)
}

// An answer that comes at the very moment at which the time is over is not lost: the error is one or the other.
func TestAnswersAtTheVeryEnd(t *testing.T) {
	why := fmt.Errorf("as the server says: %w", store.ErrInvalid)
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			failing := &refusing{Store: memory.New().Client(), of: operation{false, store.KindMutex}}
			failing.set(why)
			m := process(t, slow{failing, time.Second}, "a").Mutex("m")
			began := time.Now()
			if _, err := m.LockWithin(t.Context(), time.Second); !errors.Is(err, why) && !errors.Is(err, elect.ErrUnavailable) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		})
	}
}
