package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// keep runs a task without ticks for as long as it is owned: once, and again as its restart policy says.
func (r *running) keep(ctx context.Context) error {
	if err := r.endedBefore(); err != nil {
		return err
	}
	defer r.leave(ctx)
	token, failures := r.hold.Token(), 0
	r.report(StateStarting)
	for attempt := 1; ; attempt++ {
		began := time.Now()
		end := r.once(ctx, Start{Token: token, Attempt: attempt})
		took := time.Since(began)
		r.s.cfg.Metrics.RunDone(r.hold.Key(), keepResult(end), took)
		if end.Cut {
			return context.Cause(ctx)
		}
		if took >= r.task().Backoff.ResetAfter {
			failures = 0
		}
		failures++
		r.logEnd(end, took)
		if r.endsForGood(end, failures) {
			return r.finish(ctx, end, token)
		}
		if !r.pause(ctx, end, failures) {
			return context.Cause(ctx)
		}
		var err error
		token, err = r.advance(ctx, StateStarting, func(s *elect.TaskStatus) { s.Restarts++ })
		if err != nil {
			return err
		}
		r.s.cfg.Metrics.TaskRestart(r.hold.Key())
	}
}

// endedBefore says, as an error, that the lock holds an outcome that still counts. One under another restart policy than
// the task has now may not.
func (r *running) endedBefore() error {
	outcome := r.hold.Status().Outcome
	switch {
	case outcome == nil, r.task().Restart == RestartAlways && (outcome.Succeeded || r.task().MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", ErrDone, outcome.Error)
	}
}

// endsForGood says whether what has ended stays ended.
func (r *running) endsForGood(end Ending, failures int) bool {
	switch {
	case end.ByItself && r.task().Restart == RestartNever,
		end.ByItself && r.task().Restart == RestartOnFailure && end.Err == nil:
		return true
	default:
		return r.task().MaxRestarts > 0 && failures > r.task().MaxRestarts
	}
}

// pause waits before a restart; false: ctx ended first.
func (r *running) pause(ctx context.Context, end Ending, failures int) bool {
	delay := r.task().Backoff.delay(failures - 1)
	r.report(StateBackoff, lastError(end.Err), nextRunAt(wallclock.Now().Add(delay)))
	return sleep(ctx, delay)
}

// finish writes the outcome into the lock. The work has ended, so it is worth a try even when ctx ends meanwhile; if
// nobody notes the outcome, the work starts again elsewhere.
func (r *running) finish(ctx context.Context, end Ending, token int64) error {
	done, state := ErrDone, StateDone
	succeeded := end.Err == nil && r.task().Restart != RestartAlways
	if !succeeded {
		if end.Err == nil {
			end.Err = fmt.Errorf("it ended by itself more often than maxRestarts (%d) allows", r.task().MaxRestarts)
		}
		done, state = fmt.Errorf("%w: it failed: %w", ErrDone, end.Err), StateFailed
	}
	status := r.set(state, []func(*elect.TaskStatus){lastError(end.Err), func(s *elect.TaskStatus) {
		s.Outcome = &elect.RunOutcome{
			Succeeded: succeeded, ExitCode: end.Code, Error: display(end.Err), At: wallclock.Now().UnixMilli(), Token: token,
		}
	}})
	for try := 0; ; try++ {
		last := ctx.Err() != nil
		err := r.note(ctx, status)
		switch {
		case err == nil:
			r.log.Info("task has ended for good", "token", token)
			return done
		case last:
			return context.Cause(ctx)
		case errors.Is(err, elect.ErrLeaseLost), errors.Is(err, elect.ErrNotHeld):
			return err
		}
		sleep(ctx, advanceBackoff.delay(try))
	}
}

// note advances the lock also when ctx has ended, for as long as the lease can hold.
func (r *running) note(ctx context.Context, status elect.TaskStatus) error {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.hold.Deadline())
	defer cancel()
	_, err := r.hold.Advance(ctx, status)
	return err
}

func (r *running) logEnd(end Ending, took time.Duration) {
	if end.Err != nil {
		r.log.Error(end.Err, "task ended", "duration", took)
		return
	}
	r.log.Info("task ended", "duration", took)
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
