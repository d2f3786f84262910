package elect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Names of package record that users of this package meet.
type (
	// Key names what is locked: GROUP/NAME.
	Key = record.Key
	// Reason says in one word why a key changed its owner.
	Reason = record.Reason
	// Member is what a session says of itself.
	Member = record.Member
	// TaskStatus is what the owner says of the work.
	TaskStatus = record.TaskStatus
	// Lag is how far a subscription is behind.
	Lag = record.Lag
	// Load is how much work a task is.
	Load = record.Load
	// RunOutcome is how a task that ends by itself ended.
	RunOutcome = record.RunOutcome
)

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return record.NewKey(group, name) }

func sortKeys(keys []Key) []Key {
	slices.Sort(keys)
	return keys
}

// Instant is one reading of the machine's two steady clocks.
type Instant = protocol.Instant

// Clock reads the machine's steady clocks. Tests give one that runs at another rate; everybody else uses the default.
type Clock interface {
	Now() Instant
}

// GoClock is a Clock made of time.Now alone: it does not notice that the machine slept where CLOCK_MONOTONIC does not.
// Its readings mean something only together with others of the same GoClock. It follows the clock of testing/synctest.
func GoClock() Clock { return loop.NewGoClock() }

// SystemClock is the machine's CLOCK_MONOTONIC and CLOCK_BOOTTIME where there are such, else [GoClock]. Readings of
// several processes of one machine can be compared.
func SystemClock() Clock { return loop.NewSystemClock() }

// Errors of the store that an elector's methods wrap as well, and its limit on texts.
var (
	// ErrUnavailable says the store could not be reached or did not answer in time.
	ErrUnavailable = store.ErrUnavailable
	// ErrMoved says that no key can be claimed in this store: its documents were moved to another one.
	ErrMoved = record.ErrMoved
	// ErrTooLarge says that something passes the store's limits: a text, a value, what a member says of itself.
	ErrTooLarge = driver.ErrTooLarge
)

// MaxText is how many bytes a text may have that is kept in the store: a message, a reason, an error.
const MaxText = driver.MaxText

// Sentinels that callers branch on, also as the causes of cancelled contexts (see [context.Cause]).
var (
	// ErrLeaseLost says the lease could not be renewed in time, or somebody else owns the key now.
	ErrLeaseLost = loop.ErrLeaseLost
	// ErrReleased says the key is released in order: by Unlock, a hand-over or a drain.
	ErrReleased = errors.New("lease released")
	// ErrMaxHold says the maximum hold time is exceeded.
	ErrMaxHold = errors.New("maximum hold time exceeded")
	// ErrClosed says the elector is closed or draining and takes no more keys.
	ErrClosed = loop.ErrClosed
	// ErrCapReached says the instance owns as many keys as its cap allows.
	ErrCapReached = errors.New("cap reached")
	// ErrNotRunning says the elector has not been started: call Run, or make it with Start.
	ErrNotRunning = loop.ErrNotRunning
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

// WaitError says why a call that asks for a mutex or a key has got nothing before its context ended. It wraps Cause and
// Store, and [ErrUnavailable] unless Behind.
type WaitError struct {
	Cause  error // of the context
	Behind bool  // the store has shown, since the call began, that others were before it
	Store  error // the last error of the store, unless it has answered since; nil: none
}

// Error implements error.
func (e *WaitError) Error() string {
	switch {
	case e.Store != nil && e.Behind:
		return fmt.Sprintf("%v: others were before it, and since then the store has not answered: %v", e.Cause, e.Store)
	case e.Behind:
		return e.Cause.Error()
	default:
		return fmt.Sprintf("%v: the store has not answered: %v", e.Cause, cmp.Or(e.Store, ErrUnavailable))
	}
}

// Unwrap implements what package errors asks of an error that wraps several.
func (e *WaitError) Unwrap() []error {
	all := []error{e.Cause}
	if e.Store != nil {
		all = append(all, e.Store)
	}
	if !e.Behind {
		all = append(all, ErrUnavailable)
	}
	return all
}

// withTrouble is the error of a call whose context has ended, with what the store has said last; nil: it has answered,
// or was not asked yet.
func withTrouble(cause, trouble error) error {
	if trouble == nil {
		return cause
	}
	return &WaitError{Cause: cause, Store: trouble}
}
