package lockcommand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
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

// timeoutError is the cause of a context whose time a request limits.
type timeoutError time.Duration

func (t timeoutError) Error() string { return fmt.Sprintf("not within %v", time.Duration(t)) }

// bounded limits the waiting.
func (r Request) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := r.Timeout
	if r.NoWait {
		limit = answerLimit
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, timeoutError(limit))
}

// lockedByOthers reports whether an error of take is an answer: the store has shown that others are before the request,
// and has not failed since.
func lockedByOthers(err error) bool {
	ended, waited := errors.AsType[*elect.WaitError](err)
	if !waited {
		return errors.Is(err, mutex.ErrLocked)
	}
	_, late := errors.AsType[timeoutError](ended.Cause)
	return late && ended.Behind && ended.Store == nil
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
			"%s/%s is in use by a program as a mutex or a semaphore, and this is a read-write lock: have the program "+
				"use RWMutex(%q), or name another KEY", Group, r.Key, r.Key,
		)
	case driver.Lasting(err):
		return fmt.Errorf("the store refuses, and would again: %w", err)
	case errors.Is(err, mutex.ErrQueueFull):
		return fmt.Errorf("%s/%s: as many wait as a lock can have, try again later: %w", Group, r.Key, err)
	default:
		return err
	}
}

// session is a store that is open, and an elector on it, whose session holds the lock.
type session struct {
	db      store.Store
	elector *elect.Elector
	held    *mutex.Held // nil: the lock is not held
}

// open opens the store and begins the session.
func (r *Run) open(ctx context.Context) (*session, error) {
	db, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	cfg := r.Elector
	cfg.Store = refusals.New(db, cfg.LeaseDuration/2, func(x refusals.Refusal) {
		if r.Warn != nil {
			r.Warn(fmt.Sprintf("%s fail again and again: %v", x.Doing(), x.Err))
		}
	})
	elector, err := elect.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, errors.Join(err, db.Close(ctx))
	}
	return &session{db: db, elector: elector}, nil
}

// leaveLimit is how long the store may take to have the lock back. Others get it after the lease in any case.
const leaveLimit = 10 * time.Second

// leaveRefused is what a store gets that has refused for good: nothing is held.
const leaveRefused = time.Second

// leave gives the lock back, and the place in the queue, and ends the session, within a time.
func (s *session) leave(ctx context.Context, lease, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(lease/2, within))
	defer cancel()
	var err error
	if s.held != nil {
		err = s.held.Unlock(ctx)
	}
	closed := s.elector.Close(ctx)
	_ = s.db.Close(ctx) // everything that mattered is acknowledged
	if ctx.Err() == nil {
		return nil // what a lost lock says by now is known
	}
	return fmt.Errorf(
		"the store does not answer, so the lock is not given back: others get it after the lease of %v: %w", lease,
		errors.Join(err, closed),
	)
}
