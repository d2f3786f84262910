package elect

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/store"
)

// Errors of the store that an elector's methods wrap as well, and its limit on texts.
var (
	// ErrUnavailable says the store could not be reached or did not answer in time.
	ErrUnavailable = store.ErrUnavailable
	// ErrTooLarge says that something passes the store's limits: a text, a value, what a member says of itself.
	ErrTooLarge = store.ErrTooLarge
)

// MaxText is how many bytes a text may have that is kept in the store: a message, a reason, an error.
const MaxText = store.MaxText

// Sentinels that callers branch on, also as the causes of cancelled contexts (see [context.Cause]).
var (
	// ErrLeaseLost says the lease could not be renewed in time, or somebody else owns the key now.
	ErrLeaseLost = errors.New("lease lost")
	// ErrReleased says the key is released in order: by Unlock, a hand-over or a drain.
	ErrReleased = errors.New("lease released")
	// ErrMaxHold says the maximum hold time is exceeded.
	ErrMaxHold = errors.New("maximum hold time exceeded")
	// ErrClosed says the elector is closed or draining and takes no more keys.
	ErrClosed = errors.New("elector closed")
	// ErrCapReached says the instance owns as many keys as its cap allows.
	ErrCapReached = errors.New("cap reached")
	// ErrNotRunning says the elector has not been started: call Run, or make it with Start.
	ErrNotRunning = errors.New("elector not running")
	// ErrInsideRun says that a method would wait for the very run that calls it. Return from the run instead.
	ErrInsideRun = errors.New("called from inside the run that it would wait for")
	// ErrNotHeld says this elector does not hold the key, or a mutex was unlocked before.
	ErrNotHeld = errors.New("not held")
	// ErrLocked says that others hold a mutex, wait for it, or keep it.
	ErrLocked = errors.New("locked by others")
	// ErrQueueFull says that as many wait for a mutex as its document can hold: 1,000, or 64 KiB of them.
	ErrQueueFull = errors.New("too many wait")
	// ErrLimit says that a mutex is in use with another limit: as a mutex, a read-write lock or a semaphore of another
	// number.
	ErrLimit = errors.New("in use with another limit")
	// ErrShared says that only a holder that is alone can do this: no reader, and none of a semaphore of several.
	ErrShared = errors.New("only for a holder that is alone")
	// ErrNoClock says that the store has no clock that others could wait by.
	ErrNoClock = errors.New("the store has no clock")
)
