package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ending is how a run ended.
type Ending struct {
	Err      error // nil: success
	Code     int   // exit status; of what has none, 0 or 1
	ByItself bool  // the work ran and ended by itself: the restart policy decides
	Cut      bool  // it had to stop
	Final    bool  // it failed, and must not start again before an operator asks for that, whatever the restart policy
}

// NotStarted is the ending of work that could not be started: it is tried again, whatever the restart policy.
func NotStarted(ctx context.Context, err error) Ending {
	return Ending{Err: fmt.Errorf("not started: %w", err), Code: 1, Cut: ctx.Err() != nil}
}

// Ended is the ending of work that returned err by itself. What was cut off cannot be distinguished from what had just
// finished: after ctx has ended it counts as cut.
func Ended(ctx context.Context, err error) Ending {
	end := Ending{Err: err, ByItself: true, Cut: ctx.Err() != nil}
	if err != nil {
		end.Code = 1
	}
	return end
}

// ran is what became of a start.
type ran struct {
	start   Start
	refused error // the lock was not advanced: nothing ran
	ending  Ending
	cause   error // why the run was asked to stop; nil: it was not
	took    time.Duration
	trace   TraceContext
}

// result is how a run ended.
func (r ran) result() Result {
	if r.start.ScheduledAt.IsZero() {
		return keepResult(r.ending)
	}
	result, _ := tickResult(r.ending, r.cause)
	return result
}

// ErrDone says that a task has ended for good, done or failed: its outcome is in the lock, and the key is to be
// suspended.
var ErrDone = errors.New("task has ended for good")

// Causes, beside those of package elect, of a run being asked to stop.
var (
	errTimeout   = errors.New("run took longer than its timeout")
	errReplaced  = errors.New("the next tick takes the place of this run")
	errRestarted = errors.New("an operator asked for a restart")
	errChanged   = errors.New("the task is declared with other fields now")
)
