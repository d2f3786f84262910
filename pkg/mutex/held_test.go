package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// The context ends with the maximum hold time. Others still wait for Unlock: the holder may not have noticed.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		began := time.Now()
		h := must(t)(a.Mutex("m").MaxHold(10 * time.Second).Lock(t.Context()))
		other := ask(t.Context(), b.Mutex("m").Lock)
		<-h.Context().Done()
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it ended after %v, want 10s", took)
		}
		wantError(t, "cause", context.Cause(h.Context()), mutex.ErrMaxHold)
		other.waits(t, "another")
		wantError(t, "unlock", h.Unlock(t.Context()), mutex.ErrMaxHold)
		unlock(t, other.gets(t, "another"))
	})
}

// No one gets it before the minimum hold time is over, also after Unlock and after the death of the process.
func TestHoldAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		dying := db.Client()
		a, b := process(t, dying, "a"), process(t, db.Client(), "b")
		began := time.Now()
		unlock(t, must(t)(a.Mutex("m").HoldAtLeast(time.Minute).Lock(t.Context())))
		_, err := b.Mutex("m").TryLock(t.Context())
		wantError(t, "too early", err, mutex.ErrLocked)
		unlock(t, must(t)(b.Mutex("m").Lock(t.Context())))
		if took := time.Since(began); took < time.Minute || took > time.Minute+3*time.Second {
			t.Errorf("it was free after %v, want a minute", took)
		}
		began = time.Now()
		must(t)(a.Mutex("m").HoldAtLeast(time.Minute).Lock(t.Context()))
		_ = dying.Close(t.Context())
		unlock(t, must(t)(b.Mutex("m").Lock(t.Context())))
		if took := time.Since(began); took < time.Minute || took > time.Minute+3*time.Second {
			t.Errorf("it was free after %v, want a minute", took)
		}
		for what, lock := range map[string]func(context.Context) (*mutex.Held, error){
			"a semaphore": b.Semaphore("s", 2).HoldAtLeast(time.Minute).Lock,
		} {
			_, err := lock(t.Context())
			wantError(t, what, err, mutex.ErrShared)
		}
	})
}

// What is detached stays locked until its time, without a process.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		began := time.Now()
		if err := h.Detach(t.Context(), began.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		wantError(t, "context", context.Cause(h.Context()), elect.ErrReleased)
		wantError(t, "unlock", h.Unlock(t.Context()), mutex.ErrNotHeld)
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := must(t)(b.Mutex("m").Lock(t.Context()))
		if took := time.Since(began); took < time.Minute || took > time.Minute+3*time.Second {
			t.Errorf("it was free after %v, want a minute", took)
		}
		if next.Token() <= h.Token() {
			t.Errorf("token %d after %d", next.Token(), h.Token())
		}
		if err := next.Detach(t.Context(), time.Now()); err == nil {
			t.Error("detached into the past")
		}
		reader := must(t)(b.RWMutex("r").RLock(t.Context()))
		wantError(t, "a reader", reader.Detach(t.Context(), time.Now().Add(time.Minute)), mutex.ErrShared)
	})
}

// Close ends what is held and gives up what waits, before it ends the session.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		slow := db.Client()
		slow.Fault(func(c memory.Call) memory.Verdict {
			if len(c.Changes) > 0 && c.Changes[0].Doc.Kind == driver.KindMutex {
				return memory.Verdict{Delay: 300 * time.Millisecond}
			}
			return memory.Verdict{}
		})
		a, b := process(t, slow, "a"), process(t, db.Client(), "b")
		h, other := must(t)(a.Mutex("m").Lock(t.Context())), must(t)(b.Mutex("n").Lock(t.Context()))
		waits := ask(t.Context(), a.Mutex("n").Lock)
		next := ask(t.Context(), b.Mutex("m").Lock)
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"m", "n"} {
			is, err := record.MutexFrom(only(t, db, name))
			if err != nil || len(is.Holders)+len(is.Queue) > 1 {
				t.Errorf("%s after the session's end: %+v, %v", name, is, err)
			}
		}
		wantError(t, "what waits", <-waits.err, mutex.ErrClosed)
		wantError(t, "what is held", context.Cause(h.Context()), mutex.ErrClosed)
		wantError(t, "unlock", h.Unlock(t.Context()), mutex.ErrClosed)
		_, err := a.Mutex("m").Lock(t.Context())
		wantError(t, "lock", err, mutex.ErrClosed)
		unlock(t, next.gets(t, "another"))
		unlock(t, other)
	})
}

// Close lets no one in while a section runs: it waits for Unlock. One that never comes holds it up for 0.9 T.
func TestCloseWaitsForUnlock(t *testing.T) {
	for _, d := range []struct{ section, wants time.Duration }{
		{2 * time.Second, 2 * time.Second}, {100 * lease, lease * 9 / 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
			h := must(t)(a.Mutex("m").Lock(t.Context()))
			next := ask(t.Context(), b.Mutex("m").Lock)
			time.Sleep(lease)
			began := time.Now()
			unlocked := make(chan error)
			go func() {
				<-h.Context().Done()
				time.Sleep(d.section)
				unlocked <- h.Unlock(context.WithoutCancel(t.Context()))
			}()
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			unlock(t, next.gets(t, "another"))
			if took := time.Since(began); took < d.wants || took > d.wants+lease/10 {
				t.Errorf("a section of %v: another entered %v after Close began, want %v", d.section, took, d.wants)
			}
			wantError(t, "unlock", <-unlocked, mutex.ErrClosed)
		})
	}
}

// Close returns with its context while a section runs, and no one enters before the section has ended all the same.
func TestCloseWithinItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, "close", a.Close(ctx), context.DeadlineExceeded)
		_, err := b.Mutex("m").TryLock(t.Context())
		wantError(t, "another", err, mutex.ErrLocked)
		wantError(t, "unlock", h.Unlock(t.Context()), mutex.ErrClosed)
		unlock(t, must(t)(b.Mutex("m").Lock(t.Context())))
	})
}
