package mutex

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Held is a lock that is held. All methods may be called concurrently.
type Held struct {
	h *holding

	mu       sync.Mutex
	released bool
}

// holding is what one or, of a re-entrant owner, several Held share.
type holding struct {
	*elect.Hold

	mutex Mutex
	ctx   context.Context //nolint:containedctx // the hold's
	share *share          // of a re-entrant owner; nil: no other Held can share it
}

func newHolding(m Mutex, hold *elect.Hold) *holding {
	h := &holding{Hold: hold, mutex: m}
	h.ctx = context.WithValue(hold.Context(), inside{m.locks, m.name}, h)
	return h
}

func (h *holding) over() bool { return h.ctx.Err() != nil }

// Context ends when the lock is not held any more, with the cause: [ErrLost] the moment that the lease can no longer be
// trusted, [ErrMaxHold], [ErrClosed], or [elect.ErrReleased] after Unlock. It has the values of the context that was
// given to Lock, and does not end with that. Err and Done look at the clock: in a process that was frozen for too long
// they see the end before anything else happens.
func (h *Held) Context() context.Context { return h.h.ctx }

// Token is the fencing token. The tokens of one lock rise for ever.
func (h *Held) Token() int64 { return h.h.Token() }

// Slot is the place among the holders of a semaphore of n: 0 to n - 1, none twice at once. Else it is 0.
func (h *Held) Slot() int { return h.h.Slot() }

// Value is what is kept with the lock, under this token: see [elect.Checkpoint].
func (h *Held) Value(ctx context.Context) ([]byte, error) { return h.h.Value(ctx) }

// SetValue keeps another value with the lock: see [elect.Checkpoint].
func (h *Held) SetValue(ctx context.Context, value []byte) error { return h.h.SetValue(ctx, value) }

// Unlock gives the lock back, and returns once others may have it. When ctx ends before, it goes on behind. The errors
// are clear: [ErrNotHeld] when this Held was unlocked before; [ErrLost], [ErrMaxHold] or [ErrClosed] when it had ended
// by itself; the cause of ctx. Only a Held can unlock: nobody unlocks what another holds.
func (h *Held) Unlock(ctx context.Context) error {
	h.mu.Lock()
	before := h.released
	h.released = true
	h.mu.Unlock()
	if before {
		return fmt.Errorf("unlock %.80q: unlocked before: %w", h.h.mutex.name, ErrNotHeld)
	}
	if h.h.share != nil && !h.h.share.leave() {
		return nil
	}
	return h.h.Unlock(ctx)
}

// Detach ends the hold as Unlock does, and has the store keep others out until a time, also when this process ends. It
// is advisory, by the store's clock: the token is what protects. After an error nothing is kept. Errors: those of
// Unlock. Refused, and still held: [ErrShared] of readers, of semaphores and of an owner that holds it more than once;
// [ErrNoClock]; a time that has passed.
func (h *Held) Detach(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if err := h.detached(d); err != nil {
		return err
	}
	return h.h.Detach(ctx, d)
}

// detached notes the release unless it is refused.
func (h *Held) detached(d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return fmt.Errorf("detach %.80q: unlocked before: %w", h.h.mutex.name, ErrNotHeld)
	}
	if err := h.h.Detachable(d); err != nil {
		return err
	}
	if h.h.share != nil && !h.h.share.leaveLast() {
		return fmt.Errorf("detach %.80q: its owner holds it again: %w", h.h.mutex.name, ErrShared)
	}
	h.released = true
	return nil
}
