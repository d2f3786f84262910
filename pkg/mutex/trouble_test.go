package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// operation is what a store is asked for.
type operation struct {
	how  string // read, list or write
	kind driver.Kind
}

// refusing is a store that answers one kind of operation with an error, for as long as there is one.
type refusing struct {
	store.Store

	of    operation
	takes time.Duration // before it does
	why   atomic.Pointer[error]
}

func (s *refusing) set(why error) { s.why.Store(&why) }

func (s *refusing) refuses(of operation) error {
	if why := s.why.Load(); why != nil && of == s.of {
		time.Sleep(s.takes)
		return *why
	}
	return nil
}

func (s *refusing) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if why := s.refuses(operation{"read", kind}); why != nil {
		return driver.Reply{}, why
	}
	return s.Store.Read(ctx, kind, ids...)
}

func (s *refusing) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if why := s.refuses(operation{"list", kind}); why != nil {
		return driver.Reply{}, why
	}
	return s.Store.List(ctx, kind, q)
}

func (s *refusing) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	for _, c := range changes {
		if why := s.refuses(operation{"write", c.Doc.Kind}); why != nil {
			return driver.AllUnknown(len(changes), why), nil
		}
	}
	return s.Store.Apply(ctx, changes...)
}

// needed are the operations without which nobody gets a lock of a kind for the first time.
func needed(kind driver.Kind) map[string]operation {
	return map[string]operation{
		"read the lock":           {"read", kind},
		"read the tokens deleted": {"read", driver.KindGroup},
		"write the lock":          {"write", kind},
		"write the session":       {"write", driver.KindSession},
		"look for a move":         {"read", driver.KindValue}, // which the documents of the store may have made
	}
}

// unlocker is a mutex or a key that is held.
type unlocker interface {
	Unlock(ctx context.Context) error
}

// lockFunc takes a mutex or a key.
type lockFunc func(ctx context.Context) (unlocker, error)

// held returns once a lock that the test needs is given back.
func (lock lockFunc) held(t *testing.T) {
	t.Helper()
	h, err := lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// heldKey is a key that runs until it is unlocked.
type heldKey struct {
	e   *elect.Elector
	key elect.Key
}

func (h heldKey) Unlock(ctx context.Context) error { return h.e.Unlock(ctx, h.key) }

// lockKey is a way to take a key.
func lockKey(e *elect.Elector, opts elect.LockOptions) lockFunc {
	return func(ctx context.Context) (unlocker, error) {
		key := elect.NewKey("g", "k")
		ok, err := e.LockWith(ctx, key, opts, func(ctx context.Context, _ *elect.Lease) error {
			<-ctx.Done()
			return nil
		})
		if err == nil && !ok {
			err = mutex.ErrLocked
		}
		return heldKey{e, key}, err
	}
}

// keyWaysOf are the ways to take a key.
func keyWaysOf(e *elect.Elector, limit time.Duration) map[string]lockFunc {
	return map[string]lockFunc{
		"key Lock":            limited(lockKey(e, elect.LockOptions{}), limit),
		"key LockWith Wait":   lockKey(e, elect.LockOptions{Wait: limit}),
		"key LockWith no end": limited(lockKey(e, elect.LockOptions{WaitForever: true}), limit),
	}
}

// keyElector is a process of a test whose clock is faked.
func keyElector(t *testing.T, s store.Store, name string) *elect.Elector {
	t.Helper()
	e, err := elect.Start(t.Context(), elect.Config{
		Store: s, Member: elect.Member{Instance: name}, LeaseDuration: lease, Clock: elect.GoClock(),
		Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		_ = e.Close(ctx) // what a test wants of it, it looks at itself
		_ = e.Wait()
	})
	return e
}

// limited limits a call that has no limit of its own.
func limited(lock lockFunc, limit time.Duration) lockFunc {
	return func(ctx context.Context) (unlocker, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return lock(ctx)
	}
}

// held has a call of a mutex return what lockFunc does.
func held(lock func(ctx context.Context) (*mutex.Held, error)) lockFunc {
	return func(ctx context.Context) (unlocker, error) {
		return lock(ctx)
	}
}

// waysOf are the ways to take a mutex m. A call that has no limit of its own gets one.
func waysOf(l *mutex.Locks, limit time.Duration) map[string]lockFunc {
	limited := func(lock func(ctx context.Context) (*mutex.Held, error)) lockFunc { return limited(held(lock), limit) }
	ways := map[string]lockFunc{}
	for name, m := range map[string]mutex.Mutex{
		"mutex": l.Mutex("m"), "semaphore": l.Semaphore("m", 3), "unfair": l.Mutex("m").Unfair(),
		"reentrant": l.Mutex("m").Reentrant("me"), "max hold": l.Mutex("m").MaxHold(time.Hour),
		"hold at least": l.Mutex("m").HoldAtLeast(time.Second),
	} {
		ways[name+" Lock"], ways[name+" TryLock"] = limited(m.Lock), limited(m.TryLock)
		for _, d := range []time.Duration{0, limit} {
			ways[fmt.Sprintf("%s LockWithin %v", name, d)] = held(func(ctx context.Context) (*mutex.Held, error) {
				return m.LockWithin(ctx, d)
			})
		}
	}
	rw := l.RWMutex("m")
	ways["write Lock"], ways["write TryLock"] = limited(rw.Lock), limited(rw.TryLock)
	ways["read Lock"], ways["read TryLock"] = limited(rw.RLock), limited(rw.TryRLock)
	for _, d := range []time.Duration{0, limit} {
		ways[fmt.Sprintf("write LockWithin %v", d)] = held(func(ctx context.Context) (*mutex.Held, error) {
			return rw.LockWithin(ctx, d)
		})
		ways[fmt.Sprintf("read LockWithin %v", d)] = held(func(ctx context.Context) (*mutex.Held, error) {
			return rw.RLockWithin(ctx, d)
		})
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
		wantError(t, "away", err, elect.ErrUnavailable)
		wantError(t, "away", err, errTable)
		if errors.Is(err, mutex.ErrLocked) {
			t.Errorf("away: %v", err)
		}
		db.set(nil)
		time.Sleep(lease)
		lock.held(t)
	})
}

// The error of a session that cannot be opened stays until one is. That the one before could be read, or marked dead,
// says nothing of it.
func TestErrorsOfTheSessionStayUntilAnAnswer(t *testing.T) {
	for part := range 10 {
		synctest.Test(t, func(t *testing.T) {
			db := &refusing{Store: memory.New().Client(), of: operation{"read", driver.KindValue}, takes: lease / 80}
			db.set(errTable)
			_, err := process(t, db, "a").Mutex("m").LockWithin(t.Context(), lease+time.Duration(part)*20*time.Millisecond)
			wantError(t, fmt.Sprint("part ", part), err, errTable)
			db.set(nil)
			time.Sleep(lease)
		})
	}
}

// What will last ends a call at once, before its time is over.
func TestLastingRefusalsEndCalls(t *testing.T) {
	for _, lasting := range []error{store.ErrInvalid, store.ErrSchema, store.ErrSettings, store.ErrOther} {
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
				lock.held(t)
			})
		})
	}
}

// patience is how long calls wait that have a limit.
const patience = 3 * lease

// everyWay runs a test for every way to take a mutex or a key with every operation that fails.
func everyWay(t *testing.T, test func(t *testing.T, db *refusing, lock lockFunc)) {
	t.Helper()
	each := func(kind driver.Kind, ways map[string]lockFunc, lock func(*testing.T, *refusing, string) lockFunc) {
		for where, of := range needed(kind) {
			for way := range ways {
				t.Run(where+"/"+way, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						db := &refusing{Store: memory.New().Client(), of: of}
						test(t, db, lock(t, db, way))
					})
				})
			}
		}
	}
	each(driver.KindMutex, waysOf(&mutex.Locks{}, patience), func(t *testing.T, db *refusing, way string) lockFunc {
		t.Helper()
		return waysOf(process(t, db, "a"), patience)[way]
	})
	each(driver.KindLock, keyWaysOf(nil, patience), func(t *testing.T, db *refusing, way string) lockFunc {
		t.Helper()
		e := sync.OnceValue(func() *elect.Elector { return keyElector(t, db, "a") }) // its session is that of the first call
		return func(ctx context.Context) (unlocker, error) {
			return keyWaysOf(e(), patience)[way](ctx)
		}
	})
}

// A lock that others hold stays locked when the store fails after that, and the error says both. Once the store has
// answered, it is locked and nothing else.
func TestLockedAndThenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		failing := &refusing{Store: db.Client(), of: operation{"read", driver.KindMutex}}
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
		db := &refusing{Store: memory.New().Client(), of: operation{"write", driver.KindMutex}}
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

func (s slow) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if kind == driver.KindMutex {
		time.Sleep(s.takes)
	}
	return s.Store.Read(ctx, kind, ids...)
}

// An answer that comes at the very moment at which the time is over is not lost: the error is one or the other.
func TestAnswersAtTheVeryEnd(t *testing.T) {
	why := fmt.Errorf("as the server says: %w", store.ErrInvalid)
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			failing := &refusing{Store: memory.New().Client(), of: operation{"read", driver.KindMutex}}
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

// A key that another holds stays held when the store fails after that, and the error says both.
func TestAKeyIsHeldAndThenTheStoreIsAway(t *testing.T) {
	for where, of := range map[string]operation{
		"read the lock": {"read", driver.KindLock}, "list sessions": {"list", driver.KindSession},
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				failing := &refusing{Store: db.Client(), of: of}
				a := keyElector(t, db.Client(), "a")
				mine, err := lockKey(a, elect.LockOptions{})(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				b := keyElector(t, failing, "b")
				if of.how == "list" {
					failing.set(errTable) // nobody can say whether the holder lives
				}
				waits := make(chan error)
				go func() {
					_, err := lockKey(b, elect.LockOptions{Wait: 5 * lease})(t.Context())
					waits <- err
				}()
				time.Sleep(lease)
				failing.set(errTable)
				err = <-waits
				wantError(t, where, err, errTable)
				if errors.Is(err, mutex.ErrLocked) {
					t.Errorf("%v", err)
				}
				failing.set(nil)
				_, err = lockKey(b, elect.LockOptions{Wait: lease})(t.Context())
				if !errors.Is(err, mutex.ErrLocked) || errors.Is(err, elect.ErrUnavailable) {
					t.Errorf("it answers: %v", err)
				}
				if err := mine.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// left are the operations that are left to do when a process that holds a key ends.
var left = map[string]operation{
	"write the lock": {"write", driver.KindLock}, "write the session": {"write", driver.KindSession},
}

// What the store has said last is in the error of what gives a key back, and of the end.
func TestGivingBackHasTheLastErrorOfTheStore(t *testing.T) {
	for where, of := range left {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &refusing{Store: memory.New().Client(), of: of}
				e := keyElector(t, db, "a")
				h, err := lockKey(e, elect.LockOptions{})(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				db.set(errTable)
				limited := func(do func(ctx context.Context) error) error {
					ctx, cancel := context.WithTimeout(t.Context(), lease/2)
					defer cancel()
					return do(ctx)
				}
				if of.kind == driver.KindLock {
					err := limited(h.Unlock)
					wantError(t, "unlock", err, errTable)
					wantError(t, "unlock", err, context.DeadlineExceeded)
				}
				err = limited(e.Close)
				wantError(t, "close", err, errTable)
				wantError(t, "close", err, context.DeadlineExceeded)
				if of.kind == driver.KindSession {
					wantError(t, "wait", e.Wait(), errTable)
				}
				db.set(nil)
			})
		})
	}
}

// A store that refuses for good what is left to do ends a process at once, and what ends it says so.
func TestLastingRefusalsEndAProcessThatStops(t *testing.T) {
	for where, of := range left {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &refusing{Store: memory.New().Client(), of: of}
				e := keyElector(t, db, "a")
				if _, err := lockKey(e, elect.LockOptions{})(t.Context()); err != nil {
					t.Fatal(err)
				}
				why := fmt.Errorf("as the server says: %w", store.ErrInvalid)
				db.set(why)
				began := time.Now()
				wantError(t, "close", e.Close(t.Context()), why)
				wantError(t, "wait", e.Wait(), why)
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
