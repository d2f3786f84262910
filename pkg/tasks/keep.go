package tasks

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect"
)

// returned decides what follows a run of a task without ticks. done says that it has ended for good.
func (j *job) returned(r ran, now moment) (fx effects, done error) {
	fx = effects{ended: []runCount{{keepResult(r.ending), r.took, r.ending.Err}}}
	if r.ending.Cut && (j.stop != nil || j.next != nil) {
		return fx, nil //nolint:nilerr // how the run ended is noted, and no error of this one
	}
	if j.refused = 0; r.took >= j.task.Backoff.ResetAfter {
		j.failures = 0
	}
	j.failures++
	switch {
	case j.endsForGood(r.ending):
		done = j.finish(r, now)
		fx.note = true
		return fx, done
	case j.stop != nil || j.next != nil:
		return fx, nil //nolint:nilerr // as above
	}
	delay := j.task.Backoff.delay(j.failures - 1)
	j.pause(delay, now)
	j.set(StateBackoff, now, lastError(r.ending.Err), nextRunAt(now.wall.Add(delay)))
	fx.note = true
	return fx, nil
}

// endsForGood says whether what has ended stays ended.
func (j *job) endsForGood(end Ending) bool {
	switch {
	case end.ByItself && j.task.Restart == RestartNever,
		end.ByItself && j.task.Restart == RestartOnFailure && end.Err == nil:
		return true
	default:
		return j.task.MaxRestarts > 0 && j.failures > j.task.MaxRestarts
	}
}

// finish puts the outcome into the status. The release of the key carries it, so that it is kept also when the key is
// released at this moment. If the lease is lost before, the work starts again elsewhere.
func (j *job) finish(r ran, now moment) (done error) {
	end := r.ending
	done = ErrDone
	succeeded := end.Err == nil && j.task.Restart != RestartAlways
	if !succeeded {
		if end.Err == nil {
			end.Err = fmt.Errorf("it ended by itself more often than maxRestarts (%d) allows", j.task.MaxRestarts)
		}
		done = fmt.Errorf("%w: it failed: %w", ErrDone, end.Err)
	}
	j.status.LastError = display(end.Err)
	j.status.Outcome = &elect.RunOutcome{
		Succeeded: succeeded, ExitCode: end.Code, Error: display(end.Err), Token: r.start.Token,
		At: max(now.wall.UnixMilli(), j.rerun), // a rerun asked before is answered by it, whatever this clock shows
	}
	j.showOutcome(now)
	return done
}

// showOutcome makes the state that of the outcome, which the runner's leave may have changed.
func (j *job) showOutcome(now moment) effects {
	state := StateFailed
	if j.status.Outcome.Succeeded {
		state = StateDone
	}
	j.set(state, now)
	return effects{note: true}
}

// done says, as an error, that the lock holds an outcome that still counts. One under another restart policy than
// the task has now may not, and one that an operator wants to be forgotten does not.
func (j *job) done(outcome *elect.RunOutcome) error {
	switch {
	case outcome == nil, outcome.At < j.rerun,
		j.task.Restart == RestartAlways && (outcome.Succeeded || j.task.MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", ErrDone, outcome.Error)
	}
}

func keepResult(end Ending) Result {
	switch {
	case end.Cut:
		return ResultStopped
	case end.Err != nil:
		return ResultFailed
	default:
		return ResultSucceeded
	}
}
