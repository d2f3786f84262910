package mutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// slowly is a client of a store that answers writes of a kind after a while.
func slowly(db *memory.Store, kind driver.Kind, delay time.Duration) *memory.Store {
	s := db.Client()
	s.Fault(func(c memory.Call) memory.Verdict {
		if len(c.Changes) > 0 && c.Changes[0].Doc.Kind == kind {
			return memory.Verdict{Delay: delay}
		}
		return memory.Verdict{}
	})
	return s
}

// A program that is asked to end gives back what it holds under the context that the signal has ended. Once it has
// returned, the lock is free in the store, for each kind of lock and each way to give it back.
func TestGiveBackUnderAnEndedContext(t *testing.T) {
	unlocks := func(ctx context.Context, h *mutex.Held, _ *mutex.Locks) error { return h.Unlock(ctx) }
	for name, tt := range map[string]struct {
		lock func(*mutex.Locks, context.Context) (*mutex.Held, error)
		back func(context.Context, *mutex.Held, *mutex.Locks) error
	}{
		"mutex": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.Mutex("m").Lock(ctx)
		}, unlocks},
		"writer": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.RWMutex("m").Lock(ctx)
		}, unlocks},
		"reader": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.RWMutex("m").RLock(ctx)
		}, unlocks},
		"semaphore": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.Semaphore("m", 2).Lock(ctx)
		}, unlocks},
		"owner": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.Mutex("m").Reentrant("o").Lock(ctx)
		}, unlocks},
		"detached": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.Mutex("m").Lock(ctx)
		}, func(ctx context.Context, h *mutex.Held, _ *mutex.Locks) error {
			return h.Detach(ctx, time.Now().Add(time.Hour))
		}},
		"closed": {func(l *mutex.Locks, ctx context.Context) (*mutex.Held, error) {
			return l.Mutex("m").Lock(ctx)
		}, func(ctx context.Context, h *mutex.Held, l *mutex.Locks) error {
			go func() {
				<-h.Context().Done()
				_ = h.Unlock(ctx)
			}()
			return l.Close(ctx)
		}},
	} {
		for when, before := range map[string]bool{" before": true, " meanwhile": false} {
			t.Run(name+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const answers = 300 * time.Millisecond
					db := memory.New()
					a := process(t, slowly(db, driver.KindMutex, answers), "a")
					ctx, signal := context.WithCancel(t.Context())
					h := must(t)(tt.lock(a, ctx))
					if before {
						signal()
					} else {
						time.AfterFunc(answers/2, signal)
					}
					if err := tt.back(ctx, h, a); err != nil {
						t.Error(err)
					}
					if is, err := record.MutexFrom(only(t, db, "m")); err != nil || len(is.Holders) > 0 {
						t.Errorf("in the store after the program: %+v, %v; want no holder", is, err)
					}
				})
			})
		}
	}
}

// A store that is away does not hold a program up that is asked to end: half a lease, and ten seconds at most. A
// deadline of the release itself counts at once.
func TestGiveBackWhileTheStoreIsAway(t *testing.T) {
	for name, tt := range map[string]struct {
		lease, deadline, wants time.Duration
		cause                  error
	}{
		"short lease": {lease: lease, wants: lease / 2, cause: context.Canceled},
		"long lease":  {lease: time.Minute, wants: 10 * time.Second, cause: context.Canceled},
		"deadline": {
			lease: time.Minute, deadline: time.Second, wants: time.Second, cause: context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away := memory.New().Client()
				a := leased(t, away, "a", tt.lease)
				ctx, signal := context.WithCancel(t.Context())
				h := must(t)(a.Mutex("m").Lock(ctx))
				away.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseRequest} })
				if tt.deadline > 0 {
					limited, stop := context.WithTimeout(ctx, tt.deadline)
					defer stop()
					ctx = limited
				} else {
					signal()
				}
				began := time.Now()
				wantError(t, "unlock", h.Unlock(ctx), tt.cause)
				if took := time.Since(began); took != tt.wants {
					t.Errorf("it took %v, want %v", took, tt.wants)
				}
				away.Fault(nil)
				signal()
			})
		})
	}
}

// What Lock returns with an error holds nothing, and says so.
func TestNilHeld(t *testing.T) {
	var h *mutex.Held
	for what, err := range map[string]error{
		"unlock": h.Unlock(t.Context()), "detach": h.Detach(t.Context(), time.Now().Add(time.Hour)),
		"set value": h.SetValue(t.Context(), nil), "context": context.Cause(h.Context()),
		"value": func() error { _, err := h.Value(t.Context()); return err }(),
	} {
		wantError(t, what, err, mutex.ErrNotHeld)
	}
	if h.Context().Err() == nil || !errors.Is(h.Context().Err(), context.Canceled) || h.Token() != 0 || h.Slot() != 0 {
		t.Errorf("err %v, token %d, slot %d; want an ended context and zeros", h.Context().Err(), h.Token(), h.Slot())
	}
}
