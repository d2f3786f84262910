package job

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// returned decides what follows a run of a task without ticks. done says that it has ended for good.
func (j *Job) returned(r Attempt, now Moment) (fx Effects, done error) {
	run := Ran{
		Result: keepResult(r.Ending), Took: r.Took, Err: r.Ending.Err, Start: r.Start, Code: r.Ending.Code,
		Trace: r.Trace,
	}
	fx = Effects{Ended: []Ran{run}}
	if r.Ending.Cut && (j.stop != nil || j.next != nil) {
		return fx, nil //nolint:nilerr // how the run ended is noted, and no error of this one
	}
	if j.refused = 0; r.Took >= j.task.Backoff.ResetAfter {
		j.failures = 0
	}
	j.failures++
	switch {
	case endsForGood(j.task, r.Ending, j.failures):
		done = j.finish(r, now)
		fx.Note = true
		return fx, done
	case j.stop != nil || j.next != nil:
		return fx, nil //nolint:nilerr // as above
	}
	delay := j.task.Backoff.Delay(j.failures - 1)
	j.pause(delay, now)
	j.set(record.StateBackoff, now, lastError(r.Ending.Err), nextRunAt(now.Wall.Add(delay)))
	fx.Note, fx.Ended[0].Again = true, true
	if isReported(j.failures) {
		fx.Looping = tasks.CrashLoop{Failures: j.failures, Err: r.Ending.Err, Next: now.Wall.Add(delay)}
	}
	return fx, nil
}

// loopingAfter is from how many failures in a row on a task counts as looping.
const loopingAfter = 3

// isReported says whether so many failures in a row are reported: 3, 6, 12, and so on.
func isReported(failures int) bool {
	if failures%loopingAfter != 0 {
		return false
	}
	n := failures / loopingAfter
	return n > 0 && n&(n-1) == 0
}

// finish puts the outcome into the status. The release of the key carries it, so that it is kept also when the key is
// released at this moment. If the lease is lost before, the work starts again elsewhere.
func (j *Job) finish(r Attempt, now Moment) (done error) {
	end := r.Ending
	done = tasks.ErrDone
	succeeded := end.Err == nil && (end.Final || j.task.Restart != tasks.RestartAlways)
	if !succeeded {
		if end.Err == nil {
			end.Err = fmt.Errorf("it ended by itself more often than maxRestarts (%d) allows", j.task.MaxRestarts)
		}
		done = fmt.Errorf("%w: it failed: %w", tasks.ErrDone, end.Err)
	}
	j.status.LastError = display(end.Err)
	j.status.Outcome = &elect.RunOutcome{
		Succeeded: succeeded, Final: end.Final, ExitCode: end.Code, Error: display(end.Err), Token: r.Start.Token,
		At: now.Wall.UnixMilli(),
	}
	j.showOutcome(now)
	return done
}

// showOutcome makes the state that of the outcome, which the runner's leave may have changed.
func (j *Job) showOutcome(now Moment) Effects {
	state := record.StateFailed
	if j.status.Outcome.Succeeded {
		state = record.StateDone
	}
	j.set(state, now)
	return Effects{Note: true}
}

func keepResult(end tasks.Ending) tasks.Result {
	switch {
	case end.Cut:
		return tasks.ResultStopped
	case end.Err != nil:
		return tasks.ResultFailed
	default:
		return tasks.ResultSucceeded
	}
}

// endsForGood says whether what has ended stays ended, at so many failures in a row.
func endsForGood(t *tasks.Task, end tasks.Ending, failures int) bool {
	switch {
	case end.Final, end.ByItself && t.Restart == tasks.RestartNever,
		end.ByItself && t.Restart == tasks.RestartOnFailure && end.Err == nil:
		return true
	default:
		return t.MaxRestarts > 0 && failures > t.MaxRestarts
	}
}

// hasEnded says, as an error, that the outcome in the lock still counts. One under another restart policy than the task
// has now may not, and one that an operator wants to be forgotten does not.
func hasEnded(t *tasks.Task, outcome *elect.RunOutcome, asked tasks.Asked) error {
	switch {
	case outcome == nil, asked.Rerun > 0 && outcome.Token <= asked.Rerun,
		t.Restart == tasks.RestartAlways && !outcome.Final && (outcome.Succeeded || t.MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return tasks.ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", tasks.ErrDone, outcome.Error)
	}
}
