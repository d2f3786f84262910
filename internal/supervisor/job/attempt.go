package job

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Causes, beside those of package elect, of a run being asked to stop.
var (
	ErrTimeout   = errors.New("run took longer than its timeout")
	errReplaced  = errors.New("the next tick takes the place of this run")
	errRestarted = errors.New("an operator asked for a restart")
	errChanged   = errors.New("the task is declared with other fields now")
)

// Attempt is what became of a start.
type Attempt struct {
	Start   tasks.Start
	Refused error // the lock was not advanced: nothing ran
	Ending  tasks.Ending
	Cause   error // why the run was asked to stop; nil: it was not
	Took    time.Duration
	Trace   taskrun.TraceContext
}

// Result returns how a run ended.
func (r Attempt) Result() taskrun.Result {
	result, _ := r.result()
	return result
}

// result returns how a run ended, and what went wrong. A run of a tick that was asked to stop did nothing wrong, unless
// it took too long.
func (r Attempt) result() (taskrun.Result, error) {
	switch end := r.Ending; {
	case !end.Cut && end.Err == nil:
		return taskrun.ResultSucceeded, nil
	case !end.Cut:
		return taskrun.ResultFailed, end.Err
	case r.Start.ScheduledAt.IsZero():
		return taskrun.ResultStopped, end.Err
	case errors.Is(r.Cause, ErrTimeout) && errors.Is(end.Err, ErrTimeout):
		return taskrun.ResultTimeout, end.Err
	case errors.Is(r.Cause, ErrTimeout):
		return taskrun.ResultTimeout, errors.Join(ErrTimeout, end.Err)
	case errors.Is(r.Cause, errReplaced):
		return taskrun.ResultReplaced, nil
	default:
		return taskrun.ResultStopped, nil
	}
}

// ran returns the run as it is counted.
func (r Attempt) ran() Ran {
	result, err := r.result()
	return Ran{Result: result, Took: r.Took, Err: err, Start: r.Start, Code: r.Ending.Code, Trace: r.Trace}
}
