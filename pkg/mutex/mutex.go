package mutex

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Mutex is a mutex or a semaphore. It is a value, made by [Locks.Mutex] and [Locks.Semaphore]. Options return a changed
// copy, and leave it as it is.
type Mutex struct {
	locks *Locks
	name  string
	owner string
	ask   elect.MutexRequest
	wrong error // an option of it
}

// Lock waits its turn, until it holds the mutex or ctx ends. It goes on through failures of the store. The hold
// outlives ctx: see [Held.Context]. Errors: [ErrQueueFull], [ErrLimit], [ErrHeldHere], [ErrUpgrade], [ErrClosed]; the
// store's error when it refuses for good (see [store.Lasting]); when ctx ends an [elect.WaitError], which wraps its cause
// and the store's last error.
func (m Mutex) Lock(ctx context.Context) (*Held, error) { return m.lock(ctx) }

// TryLock does not wait for others: [ErrLocked] when they hold it, wait for it or keep it. Else it is as Lock.
func (m Mutex) TryLock(ctx context.Context) (*Held, error) {
	m.ask.Try = true
	return m.lock(ctx)
}

// within is the cause of a context whose time LockWithin has limited.
type within time.Duration

// Error implements error.
func (w within) Error() string { return fmt.Sprintf("not within %v", time.Duration(w)) }

// Unwrap makes it a deadline, to those who observe the elector as well.
func (w within) Unwrap() error { return context.DeadlineExceeded }

// tryLimit is how long the store may take to answer a call that is not to wait.
const tryLimit = 10 * time.Second

// LockWithin waits at most d, and returns [ErrLocked] then. With d of 0 or less it does not wait for others, as TryLock,
// and gives the store 10 s to answer. If the store does not answer in time, the lock's state is unknown: the error is
// then [context.DeadlineExceeded] and [elect.ErrUnavailable]. Either wraps the store's last error, unless it has
// answered since. Else it is as Lock.
func (m Mutex) LockWithin(ctx context.Context, d time.Duration) (*Held, error) {
	if d <= 0 {
		m.ask.Try, d = true, tryLimit
	}
	over := within(d)
	ctx, cancel := context.WithTimeoutCause(ctx, d, over)
	defer cancel()
	held, err := m.lock(ctx)
	ended, waited := errors.AsType[*elect.WaitError](err)
	switch {
	case !waited || !ended.Behind || !errors.Is(ended.Cause, over):
		return held, err
	case ended.Store != nil:
		return nil, fmt.Errorf(
			"lock %.80q: %w: %w; since then the store has not answered: %w", m.name, over, ErrLocked, ended.Store,
		)
	}
	return nil, fmt.Errorf("lock %.80q: %w: %w", m.name, over, ErrLocked)
}

// Unfair enters over those who wait, where the mutex is free and none of them was notified yet. It is faster under
// contention. A waiter may then be overtaken without end.
func (m Mutex) Unfair() Mutex {
	m.ask.Unfair = true
	return m
}

// Reentrant lets an owner that holds the mutex already hold it again. An owner is a name that means something in this
// process alone, such as that of a request. What it holds is given back by as many calls of Unlock.
func (m Mutex) Reentrant(owner string) Mutex {
	if owner == "" {
		m.wrong = errors.Join(m.wrong, errors.New("owner: must not be empty"))
	}
	m.owner = owner
	return m
}

// MaxHold ends the hold's context after d, with the cause [ErrMaxHold]. Others get the mutex when it is unlocked.
func (m Mutex) MaxHold(d time.Duration) Mutex {
	m.above(0, "maximum hold time", d)
	m.ask.MaxHold = d
	return m
}

// HoldAtLeast keeps others out for d from the beginning of each hold on, also after Unlock, and when this process dies.
// It is advisory, by the store's clock: Lock returns [ErrNoClock] where there is none. Only for a holder that is alone:
// else Lock returns [ErrShared].
func (m Mutex) HoldAtLeast(d time.Duration) Mutex {
	m.above(0, "minimum hold time", d)
	m.ask.AtLeast = d
	return m
}

func (m *Mutex) above(least time.Duration, what string, d time.Duration) {
	if d <= least {
		m.wrong = errors.Join(m.wrong, fmt.Errorf("%s: %v: must be above %v", what, d, least))
	}
}

func (m Mutex) limit(n int) Mutex {
	if n < 1 {
		m.wrong = fmt.Errorf("holders: %d: must be 1 or more", n)
	}
	m.ask.Limit = n
	return m
}

func (m Mutex) lock(ctx context.Context) (*Held, error) {
	if m.wrong != nil {
		return nil, fmt.Errorf("lock %.80q: %w", m.name, m.wrong)
	}
	if m.owner != "" {
		return m.locks.owners.lock(ctx, m)
	}
	h, err := m.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &Held{h: h}, nil
}

// acquire gets a hold of its own.
func (m Mutex) acquire(ctx context.Context) (*holding, error) {
	if err := m.checkInside(ctx); err != nil {
		return nil, fmt.Errorf("lock %.80q: %w", m.name, err)
	}
	all, err := m.locks.mutexes(ctx)
	if err != nil {
		return nil, err
	}
	hold, err := all.Lock(ctx, m.name, m.ask)
	if err != nil {
		return nil, err
	}
	return newHolding(m, hold), nil
}

// inside is how contexts of holds are known: one of the same lock would wait for itself.
type inside struct {
	locks *Locks
	name  string
}

func (m Mutex) checkInside(ctx context.Context) error {
	h, ok := ctx.Value(inside{m.locks, m.name}).(*holding)
	switch {
	case !ok || h.over() || m.ask.Limit > 1 || m.ask.Try, h.mutex.ask.Shared && m.ask.Shared:
		return nil
	case h.mutex.ask.Shared:
		return ErrUpgrade
	}
	return ErrHeldHere
}

// RWMutex is a read-write lock, made by [Locks.RWMutex]. It is a value, as [Mutex] is.
type RWMutex struct{ write, read Mutex }

// Lock is [Mutex.Lock], to write: alone.
func (rw RWMutex) Lock(ctx context.Context) (*Held, error) { return rw.write.Lock(ctx) }

// TryLock is [Mutex.TryLock], to write.
func (rw RWMutex) TryLock(ctx context.Context) (*Held, error) { return rw.write.TryLock(ctx) }

// LockWithin is [Mutex.LockWithin], to write.
func (rw RWMutex) LockWithin(ctx context.Context, d time.Duration) (*Held, error) {
	return rw.write.LockWithin(ctx, d)
}

// RLock is [Mutex.Lock], to read: together with other readers.
func (rw RWMutex) RLock(ctx context.Context) (*Held, error) { return rw.read.Lock(ctx) }

// TryRLock is [Mutex.TryLock], to read.
func (rw RWMutex) TryRLock(ctx context.Context) (*Held, error) { return rw.read.TryLock(ctx) }

// RLockWithin is [Mutex.LockWithin], to read.
func (rw RWMutex) RLockWithin(ctx context.Context, d time.Duration) (*Held, error) {
	return rw.read.LockWithin(ctx, d)
}

// Unfair is [Mutex.Unfair]. Readers still do not overtake writers.
func (rw RWMutex) Unfair() RWMutex { return RWMutex{rw.write.Unfair(), rw.read.Unfair()} }

// Reentrant is [Mutex.Reentrant]. A writer may read as well; a reader that asks to write gets [ErrUpgrade].
func (rw RWMutex) Reentrant(owner string) RWMutex {
	return RWMutex{rw.write.Reentrant(owner), rw.read.Reentrant(owner)}
}

// HoldAtLeast is [Mutex.HoldAtLeast], of writers.
func (rw RWMutex) HoldAtLeast(d time.Duration) RWMutex {
	return RWMutex{rw.write.HoldAtLeast(d), rw.read}
}

// MaxHold is [Mutex.MaxHold], of writers and readers.
func (rw RWMutex) MaxHold(d time.Duration) RWMutex {
	return RWMutex{rw.write.MaxHold(d), rw.read.MaxHold(d)}
}

// Held is a lock that is held. All methods may be called concurrently. A nil *Held, as that of a Lock that failed,
// holds nothing: its calls return [ErrNotHeld], its context has ended with that cause, and its token is 0.
type Held struct {
	h *holding

	mu       sync.Mutex
	released bool
}

// errNil is the error of calls of a nil Held.
var errNil = fmt.Errorf("the lock was not obtained: %w", ErrNotHeld)

// notHeld is the context of a nil Held.
var notHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNil)
	return ctx
}()

// holding is what one or, of a re-entrant owner, several Held share.
type holding struct {
	hold  *elect.Hold
	mutex Mutex
	ctx   context.Context //nolint:containedctx // the hold's
	share *share          // of a re-entrant owner; nil: no other Held can share it
}

func newHolding(m Mutex, hold *elect.Hold) *holding {
	h := &holding{hold: hold, mutex: m}
	h.ctx = context.WithValue(hold.Context(), inside{m.locks, m.name}, h)
	return h
}

func (h *holding) over() bool { return h.ctx.Err() != nil }

// Context ends when the lock is not held any more, with the cause: [ErrLost] the moment that the lease can no longer be
// trusted, [ErrMaxHold], [ErrClosed], or [elect.ErrReleased] after Unlock. It has the values of the context that was
// given to Lock, and does not end with that. Err and Done look at the clock: in a process that was frozen for too long
// they see the end before anything else happens.
func (h *Held) Context() context.Context {
	if h == nil {
		return notHeld
	}
	return h.h.ctx
}

// Token is the fencing token. The tokens of one lock rise for ever.
func (h *Held) Token() int64 {
	if h == nil {
		return 0
	}
	return h.h.hold.Token()
}

// Slot is the place among the holders of a semaphore of n: 0 to n - 1, none twice at once. Else it is 0.
func (h *Held) Slot() int {
	if h == nil {
		return 0
	}
	return h.h.hold.Slot()
}

// Value is what is kept with the lock, under this token: see [elect.Checkpoint].
func (h *Held) Value(ctx context.Context) ([]byte, error) {
	if h == nil {
		return nil, fmt.Errorf("value: %w", errNil)
	}
	return h.h.hold.Value(ctx)
}

// SetValue keeps another value with the lock: see [elect.Checkpoint].
func (h *Held) SetValue(ctx context.Context, value []byte) error {
	if h == nil {
		return fmt.Errorf("set value: %w", errNil)
	}
	return h.h.hold.SetValue(ctx, value)
}

// Unlock gives the lock back, and returns once others may have it. It does so under a ctx that has ended as well, as
// that of a signal: one that has ended, or is cancelled meanwhile, bounds it by half of the lease, 10 s at most. A
// deadline that comes meanwhile bounds it at once. What takes longer goes on behind. Errors: [ErrNotHeld] when this
// Held was unlocked before, or is nil; [ErrLost], [ErrMaxHold] or [ErrClosed] when it had ended by itself; the cause of
// ctx. No one can unlock what another holds.
func (h *Held) Unlock(ctx context.Context) error {
	if h == nil {
		return fmt.Errorf("unlock: %w", errNil)
	}
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
	return h.h.hold.Unlock(ctx)
}

// Detach ends the hold as Unlock does, and has the store keep others out until a time, also when this process ends. It
// is advisory, by the store's clock: the token is what protects. After an error nothing is kept. Errors: those of
// Unlock. Refused, and still held: [ErrShared] of readers, of semaphores and of an owner that holds it more than once;
// [ErrNoClock]; a time that has passed.
func (h *Held) Detach(ctx context.Context, until time.Time) error {
	if h == nil {
		return fmt.Errorf("detach: %w", errNil)
	}
	d := time.Until(until)
	if err := h.detached(d); err != nil {
		return err
	}
	return h.h.hold.Detach(ctx, d)
}

// detached notes the release unless it is refused.
func (h *Held) detached(d time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return fmt.Errorf("detach %.80q: unlocked before: %w", h.h.mutex.name, ErrNotHeld)
	}
	if err := h.h.hold.Detachable(d); err != nil {
		return err
	}
	if h.h.share != nil && !h.h.share.leaveLast() {
		return fmt.Errorf("detach %.80q: its owner holds it again: %w", h.h.mutex.name, ErrShared)
	}
	h.released = true
	return nil
}
