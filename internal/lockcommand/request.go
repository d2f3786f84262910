package lockcommand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

// Group is the group of all locks: KEY is locks/KEY in the store, and in the environment of the command.
const Group = "locks"

// Request is the lock that is asked for.
type Request struct {
	Key     string
	Shared  bool          // together with others that share it
	Unfair  bool          // before those who wait, where it is free
	NoWait  bool          // not to wait for others
	Timeout time.Duration // how long to wait at most; 0: no limit
	MaxHold time.Duration // how long to hold it at most; 0: no limit
	AtLeast time.Duration // how long to keep others out at least; 0: not
}

// answerLimit is how long a store may take to say that others hold the lock.
const answerLimit = 10 * time.Second

var errNoAnswer = fmt.Errorf("the store has not answered for %v: %w", answerLimit, store.ErrUnavailable)

// bounded limits the waiting.
func (r Request) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case r.NoWait:
		return context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	case r.Timeout > 0:
		return context.WithTimeoutCause(ctx, r.Timeout, mutex.ErrLocked)
	default:
		return context.WithCancel(ctx)
	}
}

// take takes the lock, within the limits of ctx.
func (r Request) take(ctx context.Context, locks *mutex.Locks) (*mutex.Held, error) {
	lock := locks.RWMutex(r.Key)
	if r.Unfair {
		lock = lock.Unfair()
	}
	if r.MaxHold > 0 {
		lock = lock.MaxHold(r.MaxHold)
	}
	if r.AtLeast > 0 {
		lock = lock.HoldAtLeast(r.AtLeast)
	}
	switch {
	case r.NoWait && r.Shared:
		return lock.TryRLock(ctx)
	case r.NoWait:
		return lock.TryLock(ctx)
	case r.Shared:
		return lock.RLock(ctx)
	default:
		return lock.Lock(ctx)
	}
}

// explain says what to do about an error of take.
func (r Request) explain(err error) error {
	switch {
	case errors.Is(err, mutex.ErrLimit):
		return fmt.Errorf(
			"%s/%s is in use by a program as a mutex or a semaphore, and this is a read-write lock: have the program use "+
				"RWMutex(%q), or name another KEY", Group, r.Key, r.Key,
		)
	case errors.Is(err, mutex.ErrQueueFull):
		return fmt.Errorf("%s/%s: as many wait as a lock can have, try again later: %w", Group, r.Key, err)
	default:
		return err
	}
}
