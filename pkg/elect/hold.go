package elect

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
)

// valuesOfMutexes is the group of the values that are kept with mutexes. No group's name begins so.
const valuesOfMutexes = "~locks"

// Hold is a mutex that is held, from the request until the release. All methods may be called concurrently.
type Hold struct {
	calls       releaser
	name, claim string
	request     MutexRequest
	answer      chan error      // to Lock; a nil error: it is held
	inner       context.Context //nolint:containedctx // what Context returns, without the look at the clock
	cancel      context.CancelCauseFunc
	released    atomic.Bool // by Unlock or Detach

	// These do not change after the answer.
	slot  int
	lease *Lease // nil before it is granted
	run   *loop.WatchedRun

	// The loop alone touches these.
	since     protocol.Instant // of the last step
	over      bool             // its end was reported
	lost      error            // why it ended, when it did not end by its release
	releasing []chan<- error   // calls of Unlock and Detach
}

var _ Checkpoint = (*Hold)(nil)

// releaser takes holders out of mutexes. Only the loop calls it.
type releaser interface {
	owner
	// release has the store keep the mutex for another detached; 0: not at all. lost is why the hold had ended before;
	// nil: it had not.
	release(n *engine.Engine, h *Hold, detached time.Duration, lost error, done chan<- error)
}

// Context ends when the hold does: with the cause [ErrReleased] at its release, [ErrLeaseLost] the moment that the
// lease can no longer be trusted, [ErrMaxHold], or [ErrClosed]. It has the values of the context that was given to
// Lock, and does not end with that.
//
// Err and Done look at the clock. So a process that was frozen for too long finds it ended before anything else of the
// process has noticed.
func (h *Hold) Context() context.Context { return holdContext{h.inner, h} }

// Token is the fencing token: give it to whatever the work changes, and let that refuse a token smaller than the
// largest it has seen. The tokens of a mutex rise for ever.
func (h *Hold) Token() int64 { return h.lease.Token() }

// Slot is the place of a holder of a semaphore of n: 0 to n - 1, no two at once the same. It is 0 of others.
func (h *Hold) Slot() int { return h.slot }

// Shared says whether others may hold it at the same time: readers, and holders of a semaphore.
func (h *Hold) Shared() bool { return h.request.Shared || h.request.Limit > 1 }

// Value implements [Checkpoint]: what is kept with the mutex, under this hold's token.
func (h *Hold) Value(ctx context.Context) ([]byte, error) { return h.lease.Value(ctx) }

// SetValue implements [Checkpoint].
func (h *Hold) SetValue(ctx context.Context, value []byte) error { return h.lease.SetValue(ctx, value) }

// Unlock ends the hold and its context, and returns once others may have the mutex. A ctx that has ended, or that is
// cancelled meanwhile, bounds it by half of the lease duration, 10 s at most; a deadline that comes meanwhile at once.
// The release goes on behind then. Errors: [ErrNotHeld] when it was unlocked before; [ErrLeaseLost], [ErrMaxHold] or
// [ErrClosed] when the hold had ended by itself; the cause of ctx.
func (h *Hold) Unlock(ctx context.Context) error { return h.leave(ctx, "unlock", 0) }

// Detach ends the hold and its context as Unlock does, and has the store keep others out for d, also when this process
// ends. It is advisory: the token is what protects. An error says that nothing is kept. Errors: those of Unlock; those
// of Detachable, after which the hold goes on.
func (h *Hold) Detach(ctx context.Context, d time.Duration) error {
	if err := h.Detachable(d); err != nil {
		return err
	}
	return h.leave(ctx, "detach", d)
}

// Detachable says why Detach would be refused, and changes nothing: [ErrShared] for readers and semaphores;
// [ErrNoClock]; d must be above 0.
func (h *Hold) Detachable(d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("detach %.80q: %v: must be above 0", h.name, d)
	case h.Shared():
		return fmt.Errorf("detach %.80q: %w", h.name, ErrShared)
	case !h.calls.in().loop.Clock.Known():
		return fmt.Errorf("detach %.80q: %w", h.name, ErrNoClock)
	}
	return nil
}

func (h *Hold) leave(ctx context.Context, what string, detached time.Duration) error {
	if !h.released.CompareAndSwap(false, true) {
		return fmt.Errorf("%s %.80q: unlocked before: %w", what, h.name, ErrNotHeld)
	}
	h.check()
	lost := context.Cause(h.inner)
	h.end(ErrReleased)
	done := make(chan error, 1)
	ctx, cancel := electing.Release(ctx, h.calls.in().loop.Params().T)
	defer cancel()
	h.calls.in().loop.Post(func(n *engine.Engine) { h.calls.release(n, h, detached, lost, done) })
	if lost != nil {
		return fmt.Errorf("%s %.80q: it had ended: %w", what, h.name, lost)
	}
	select {
	case err := <-done:
		if err != nil {
			err = fmt.Errorf("%s %.80q: %w", what, h.name, err)
		}
		return err
	case <-ctx.Done():
		var trouble error
		_ = h.calls.in().loop.Ask(context.WithoutCancel(ctx), func(n *engine.Engine) { trouble = n.Trouble.Mutex(h.id()) })
		return fmt.Errorf("%s %.80q: %w", what, h.name, withTrouble(context.Cause(ctx), trouble))
	case <-h.calls.in().loop.Over():
		return fmt.Errorf("%s %.80q: %w", what, h.name, ErrClosed)
	}
}

// id is that of the mutex's document.
func (h *Hold) id() string { return record.MutexID(h.name) }

// answerReleases answers those who wait for the release.
func (h *Hold) answerReleases(err error) {
	for _, done := range h.releasing {
		done <- err
	}
	h.releasing = nil
}

// check ends the hold when its lease is over.
func (h *Hold) check() {
	if h.inner.Err() == nil && !h.lease.Valid() {
		h.end(ErrLeaseLost)
	}
}

// end ends the context; only the first cause counts.
func (h *Hold) end(cause error) {
	h.cancel(cause)
	h.lease.lost.Store(true)
	h.calls.in().loop.Watchdog.Remove(h.run)
}

// holdRun has the watchdog end a hold.
type holdRun struct{ h *Hold }

// Stop ends the hold.
func (r holdRun) Stop(cause error) { r.h.end(cause) }

// holdContext looks at the clock whenever it is asked.
type holdContext struct {
	context.Context //nolint:containedctx // it is one

	h *Hold
}

// Err implements [context.Context].
func (c holdContext) Err() error {
	c.h.check()
	return c.Context.Err()
}

// Done implements [context.Context].
func (c holdContext) Done() <-chan struct{} {
	c.h.check()
	return c.Context.Done()
}

// MutexRequest is what a call of [Mutexes.Lock] asks for: Limit, Shared, Unfair, Try, MaxHold and AtLeast.
type MutexRequest = protocol.MutexRequest
