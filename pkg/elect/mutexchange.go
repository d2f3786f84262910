package elect

import "time"

// MutexStep is what has happened to a call of [Mutexes.Lock].
type MutexStep uint8

// The steps of a call. Every MutexAsked is followed by a MutexObtained or a MutexRefused, and every MutexObtained by a
// MutexReleased or a MutexLost.
const (
	MutexAsked    MutexStep = iota // it waits from now on
	MutexObtained                  // it holds the mutex
	MutexRefused                   // it waits no more, and holds nothing
	MutexReleased                  // its hold was unlocked or detached
	MutexLost                      // its hold has ended by itself
)

// MutexChange is a step of a call for a mutex, for metrics.
type MutexChange struct {
	Step MutexStep
	Name string // of the mutex
	// Took is how long the call waited, of MutexObtained and MutexRefused; else how long it held the mutex. 0:
	// MutexAsked.
	Took time.Duration
	// Err is why: of MutexRefused what [Mutexes.Lock] returns, of MutexLost the cause of the hold's context; else nil.
	Err error
}

// step reports a step of a call. Its time counts from the step before.
func (mc *mutexCalls) step(call *mutexCall, step MutexStep, err error) {
	now, took := mc.node.Moment().Now, time.Duration(0)
	if step != MutexAsked {
		took = now.HolderElapsed(call.since)
	}
	call.since = now
	mc.c.cfg.Hooks.mutex(MutexChange{Step: step, Name: call.name, Took: took, Err: err})
}

// over reports the end of a hold, once.
func (mc *mutexCalls) over(call *mutexCall, step MutexStep, err error) {
	if call.hold != nil && !call.over {
		call.over = true
		mc.step(call, step, err)
	}
}
