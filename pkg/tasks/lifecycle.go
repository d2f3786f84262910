package tasks

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// begin starts the task, or has it wait for its ticks. The token is that of the claim, 0 once it has been used.
func (j *job) begin(token int64, now moment) effects {
	outcome := j.status.Outcome
	j.status.Restarts, j.status.LastError, j.status.Settled, j.status.Outcome = 0, "", false, nil // an earlier owner's
	j.phase, j.ticks, j.failures, j.refused, j.hasRun = idle, nil, 0, 0, false
	if j.task.Ticks() {
		return j.beginTicks(now)
	}
	j.follow(j.task, now)
	if err := j.task.ended(outcome, j.asked); err != nil {
		j.status.Outcome = outcome
		return j.leave(err, now)
	}
	j.start = Start{Token: token, Attempt: 1}
	return j.run(now)
}

// wake lets time pass.
func (j *job) wake(now moment) effects {
	var fx effects
	if j.phase == pausing && !now.steady.Before(j.retryAt) {
		fx = j.tryAgain(now)
	}
	if j.ticks != nil && j.phase < leaving {
		fx = fx.and(j.due(now))
	}
	return fx
}

// tryAgain goes on after a pause.
func (j *job) tryAgain(now moment) effects {
	if j.refused == 0 { // else it is the same start still
		j.start.Attempt++
		if j.ticks == nil {
			j.status.Restarts++
		}
	}
	j.start.Token = 0
	return j.run(now)
}

// ended takes what became of the start.
func (j *job) ended(r ran, now moment) effects {
	if j.phase != active {
		return effects{}
	}
	var fx effects
	j.phase, j.start = idle, r.start
	switch {
	case r.refused != nil:
		fx = j.unstarted(r.refused, now)
	case j.ticks != nil:
		fx = j.tried(r, now)
	default:
		var done error
		if fx, done = j.returned(r, now); done != nil {
			fx = fx.and(j.leave(done, now))
		}
	}
	switch {
	case j.phase >= leaving:
		return fx
	case j.stop != nil:
		return fx.and(j.leave(j.stop, now))
	case j.next != nil:
		return fx.and(j.leave(errChanged, now))
	case j.ticks != nil:
		return fx.and(j.proceed(now))
	}
	return fx
}

// unstarted takes that the lock was not advanced, so that nothing was run.
func (j *job) unstarted(err error, now moment) effects {
	j.unfire()
	switch {
	case j.stop != nil, j.next != nil, j.ticks != nil && !j.ticks.pending.IsZero():
		return effects{}
	case errors.Is(err, elect.ErrLeaseLost), errors.Is(err, elect.ErrReleased),
		errors.Is(err, elect.ErrNotHeld), errors.Is(err, elect.ErrClosed):
		return j.leave(err, now)
	}
	j.refused++
	j.pause(advanceBackoff.Delay(j.refused-1), now)
	return effects{note: true}
}

// advanceBackoff spaces tries of a write that failed: the elector has its own limits for each.
var advanceBackoff = Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second}

// stopped takes that the key is to be released, or is lost.
func (j *job) stopped(cause error, now moment) effects {
	if j.stop == nil {
		j.stop = cause
	}
	switch j.phase {
	case idle, pausing:
		return j.leave(j.stop, now)
	case active:
		return effects{cut: cause}
	case leaving, concluded:
	}
	return effects{}
}

// changed takes the task as it is declared now. What needs no restart takes effect while the run goes on.
func (j *job) changed(t *Task, now moment) effects {
	switch {
	case j.phase == concluded:
		return effects{}
	case j.next == nil && !t.NeedsRestart(*j.task):
		j.task = t
		return effects{}
	}
	fx := effects{note: j.follow(t, now)}
	return fx.and(j.beginAs(t, errChanged, now))
}

// beginAs ends what goes on, and begins again as t.
func (j *job) beginAs(t *Task, why error, now moment) effects {
	j.next = t
	switch j.phase {
	case idle, pausing:
		return j.leave(errChanged, now)
	case active:
		return effects{cut: why}
	case leaving, concluded:
	}
	return effects{}
}

// leave begins the end, for the reason given.
func (j *job) leave(why error, now moment) effects {
	j.phase, j.result = leaving, why
	if _, ok := j.task.Runner.(Leaver); ok && j.hasRun && j.ticks == nil {
		return effects{leave: true}
	}
	return j.left(now)
}

// left takes that nothing of the task is left.
func (j *job) left(now moment) effects {
	if j.stop == nil && errors.Is(j.result, errChanged) {
		j.task, j.next, j.result = j.next, nil, nil
		return effects{fresh: true}.and(j.begin(0, now))
	}
	j.phase = concluded
	why := j.result
	if errors.Is(why, errChanged) {
		why = j.stop
	}
	fx := effects{over: why, note: j.ticks != nil} // which ticks are dealt with is not lost
	if errors.Is(why, ErrDone) {
		fx = fx.and(j.showOutcome(now))
	}
	return fx
}
