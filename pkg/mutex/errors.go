package mutex

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect"
)

// What callers branch on; most are those of package elect. A lock that ends by itself has ErrLost, ErrMaxHold or
// ErrClosed as the cause of its context (see [context.Cause]).
var (
	ErrLocked    = elect.ErrLocked    // others hold it, wait for it or keep it
	ErrQueueFull = elect.ErrQueueFull // as many wait as the lock's document can hold: at most 1,000
	ErrLimit     = elect.ErrLimit     // it is in use as something else, or with another n
	ErrShared    = elect.ErrShared    // only a holder that is alone can keep others out after its end
	ErrNoClock   = elect.ErrNoClock   // the store has no clock that others could wait by
	ErrNotHeld   = elect.ErrNotHeld   // it was unlocked before
	ErrLost      = elect.ErrLeaseLost // the lease could not be renewed in time, or somebody removed the holder
	ErrMaxHold   = elect.ErrMaxHold   // the maximum hold time is exceeded
	ErrClosed    = elect.ErrClosed    // Close was called

	// ErrUpgrade says that a reader asks to write. Two of them would wait for each other: unlock first.
	ErrUpgrade = errors.New("a reader cannot become the writer")
	// ErrHeldHere says that a lock is asked for under the context of its own holder, which would wait for itself. See
	// [Mutex.Reentrant].
	ErrHeldHere = errors.New("held by the caller itself")
)
