package tasks

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect"
)

// returned decides what follows a run of a task without ticks. done says that it has ended for good.
func (j *job) returned(r ran, now moment) (fx effects, done error) {
	run := runCount{
		result: keepResult(r.ending), took: r.took, err: r.ending.Err, start: r.start, code: r.ending.Code,
		trace: r.trace,
	}
	fx = effects{ended: []runCount{run}}
	if r.ending.Cut && (j.stop != nil || j.next != nil) {
		return fx, nil //nolint:nilerr // how the run ended is noted, and no error of this one
	}
	if j.refused = 0; r.took >= j.task.Backoff.ResetAfter {
		j.failures = 0
	}
	j.failures++
	switch {
	case j.task.endsForGood(r.ending, j.failures):
		done = j.finish(r, now)
		fx.note = true
		return fx, done
	case j.stop != nil || j.next != nil:
		return fx, nil //nolint:nilerr // as above
	}
	delay := j.task.Backoff.Delay(j.failures - 1)
	j.pause(delay, now)
	j.set(StateBackoff, now, lastError(r.ending.Err), nextRunAt(now.wall.Add(delay)))
	fx.note, fx.ended[0].again = true, true
	if telling(j.failures) {
		fx.looping = CrashLoop{Failures: j.failures, Err: r.ending.Err, Next: now.wall.Add(delay)}
	}
	return fx, nil
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
		Succeeded: succeeded, Final: end.Final, ExitCode: end.Code, Error: display(end.Err), Token: r.start.Token,
		At: now.wall.UnixMilli(),
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
