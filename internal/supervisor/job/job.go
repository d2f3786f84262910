// Package job decides what is done for a task whose key is held: when it starts, what follows a run, which ticks count.
// It reads no clock and does no I/O.
package job

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Job is one task under one lease, as a state machine that owns the task's status. It starts no goroutine, does no I/O
// and reads no clock. Its methods are what has happened, and return what is to be done about it.
type Job struct {
	task   *tasks.Task   // it is never changed
	asked  taskrun.Asked // by operators
	phase  phase
	status status
	try    try
	ticks  *ticks // nil for a task without ticks
	load   meter
	exit   exit
}

// New takes up a task under the status that the lock holds. Begin it.
func New(t *tasks.Task, s elect.TaskStatus) *Job { return &Job{task: t, status: status{s}} }

// Task returns the task as the job runs it.
func (j *Job) Task() *tasks.Task { return j.task }

// Status returns the status that the lock should have.
func (j *Job) Status() elect.TaskStatus { return j.status.TaskStatus }

// Reports reports whether the lease is to get the status now that fx are to be done. The status of a start without a
// token, with its tick, counts only once the lock is advanced to it.
func (j *Job) Reports(fx Effects) bool {
	return fx.Note && (j.phase != active || j.try.start.Token > 0)
}

// Asked returns what operators ask of the task, as far as the job knows.
func (j *Job) Asked() taskrun.Asked { return j.asked }

// Start returns the start that goes on, or was tried last.
func (j *Job) Start() tasks.Start { return j.try.start }

// Ticks reports whether the task is fired at ticks. A wrong schedule has none.
func (j *Job) Ticks() bool { return j.ticks != nil }

// Waiting reports whether the job waits for a tick, so that nothing has to be kept for it.
func (j *Job) Waiting() bool { return j.ticks != nil && j.phase == idle }

// HasRun reports whether anything was run since the task began, or began again.
func (j *Job) HasRun() bool { return j.try.ran }

// Times returns when the job is to be woken: at a tick, by the wall clock, and after a pause, by the steady one. The
// zero time is never.
func (j *Job) Times() (tick, retry time.Time) {
	if j.ticks != nil && j.phase < leaving {
		tick = j.ticks.next
	}
	if j.phase == pausing {
		retry = j.try.retryAt
	}
	return tick, retry
}

// Begin begins the task under what operators ask of it, or has it wait for its ticks. The token is that of the claim,
// or 0 once it has been used.
func (j *Job) Begin(asked taskrun.Asked, token int64, now Moment) Effects {
	outcome := j.status.begin()
	j.asked, j.phase, j.ticks, j.try = asked, idle, nil, try{}
	if j.task.Ticks() {
		var fx Effects
		if j.ticks, fx = ticksOf(j.task, &j.status, asked, now); j.ticks == nil {
			return fx
		}
		return fx.and(j.proceed(now))
	}
	j.status.follow(j.task, now)
	j.status.Undeclared = false
	if err := hasEnded(j.task, outcome, asked); err != nil {
		j.status.Outcome = outcome
		return j.leave(err, now)
	}
	j.try.start = tasks.Start{Token: token, Attempt: 1}
	return j.run(now)
}

// run begins the start. One without a token gets it by advancing the lock to the status.
func (j *Job) run(now Moment) Effects {
	trigger := int64(0)
	if j.ticks != nil {
		trigger = j.ticks.trigger
	}
	j.phase, j.try.ran = active, true
	j.try.before = j.status.fire(j.try.start.ScheduledAt, trigger)
	j.status.set(j.task, record.StateStarting, now)
	return Effects{Run: true, Note: j.try.start.Token > 0}
}

// Advanced takes that the lock was advanced for the start, or by its run, with the status as of then; 0: it was not.
func (j *Job) Advanced(token int64) Effects {
	j.try.start.Token = max(j.try.start.Token, token)
	return Effects{Note: true}
}

// Reported takes what the run says about itself.
func (j *Job) Reported(state string, change []func(*elect.TaskStatus), now Moment) Effects {
	if j.phase != active && j.phase != leaving {
		return Effects{} // too late
	}
	j.status.set(j.task, state, now, change...)
	return Effects{Note: true}
}

// Loaded takes how much work the run is.
func (j *Job) Loaded(load float64, now Moment) Effects {
	if j.phase != active {
		return Effects{}
	}
	mean, ok := j.load.take(load, now.Steady)
	if !ok || !j.status.Load.Differs(mean) {
		return Effects{}
	}
	j.status.Load = elect.Load{Known: true, Value: mean}
	return Effects{Note: true}
}

// Ended takes what became of the start, and what operators ask of the task now.
func (j *Job) Ended(asked taskrun.Asked, r Attempt, now Moment) Effects {
	j.asked = asked
	if j.phase != active {
		return Effects{}
	}
	var fx Effects
	j.phase, j.try.start = idle, r.Start
	switch {
	case r.Refused != nil:
		fx = j.unstarted(r.Refused, now)
	case j.ticks != nil:
		fx = j.tried(r, now)
	default:
		fx = j.returned(r, now)
	}
	switch why := j.exit.why(); {
	case j.phase >= leaving:
		return fx
	case why != nil:
		return fx.and(j.leave(why, now))
	case j.ticks != nil:
		return fx.and(j.proceed(now))
	}
	return fx
}

// unstarted takes that the lock was not advanced, so that nothing was run.
func (j *Job) unstarted(err error, now Moment) Effects {
	j.status.restore(j.try.before)
	switch {
	case j.exit.wanted(), j.ticks != nil && !j.ticks.pending.IsZero():
		return Effects{}
	case errors.Is(err, elect.ErrLeaseLost), errors.Is(err, elect.ErrReleased),
		errors.Is(err, elect.ErrNotHeld), errors.Is(err, elect.ErrClosed):
		return j.leave(err, now)
	}
	j.try.refused++
	j.pause(advanceBackoff.Delay(j.try.refused-1), now)
	return Effects{Note: true}
}

// advanceBackoff spaces tries of a write that failed: the elector has its own limits for each.
var advanceBackoff = tasks.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second}

// returned decides what follows a run of a task without ticks.
func (j *Job) returned(r Attempt, now Moment) Effects {
	fx := Effects{Ended: []Ran{r.ran()}}
	if r.Ending.Cut && j.exit.wanted() {
		return fx
	}
	j.try.refused = 0
	failures := j.try.returned(r.Took, j.task.Backoff.ResetAfter)
	switch {
	case endsForGood(j.task, r.Ending, failures):
		fx.Note = true
		return fx.and(j.leave(j.status.conclude(j.task, r, now), now))
	case j.exit.wanted():
		return fx
	}
	delay := j.task.Backoff.Delay(failures - 1)
	j.pause(delay, now)
	j.status.set(j.task, record.StateBackoff, now, lastError(r.Ending.Err), nextRunAt(now.Wall.Add(delay)))
	fx.Note, fx.Ended[0].Again = true, true
	if isReported(failures) {
		fx.Looping = taskrun.CrashLoop{Failures: failures, Err: r.Ending.Err, Next: now.Wall.Add(delay)}
	}
	return fx
}

// tried decides what follows a try of a tick.
func (j *Job) tried(r Attempt, now Moment) Effects {
	run := r.ran()
	fx := Effects{Ended: []Ran{run}}
	if j.try.refused = 0; run.Result == taskrun.ResultStopped || run.Result == taskrun.ResultReplaced {
		return fx
	}
	j.status.LastError = display(run.Err)
	again := run.Err != nil && r.Start.Attempt < j.task.Retry.Attempts
	if !again || j.exit.wanted() || !j.ticks.pending.IsZero() {
		return fx
	}
	j.pause(j.task.Retry.Backoff.Delay(r.Start.Attempt-1), now)
	j.status.set(j.task, record.StateBackoff, now)
	fx.Note, fx.Ended[0].Again = true, true
	return fx
}

// pause waits before the next try.
func (j *Job) pause(d time.Duration, now Moment) {
	j.phase, j.try.retryAt = pausing, now.Steady.Add(d)
}

// Wake lets time pass.
func (j *Job) Wake(now Moment) Effects {
	var fx Effects
	if j.phase == pausing && !now.Steady.Before(j.try.retryAt) {
		fx = j.tryAgain(now)
	}
	if j.ticks != nil && j.phase < leaving {
		fx = fx.and(j.due(now))
	}
	return fx
}

// tryAgain goes on after a pause.
func (j *Job) tryAgain(now Moment) Effects {
	if j.try.refused == 0 { // else it is the same start still
		j.try.start.Attempt++
		if j.ticks == nil {
			j.status.Restarts++
		}
	}
	j.try.start.Token = 0
	return j.run(now)
}

// due deals with a tick whose time has come.
func (j *Job) due(now Moment) Effects {
	fx := j.ticks.setBack(&j.status, now)
	at, late, ok := j.ticks.come(now.Wall)
	if !ok {
		return fx
	}
	fx = fx.and(j.ticks.meet(at, late, &j.task.Timing, j.phase, &j.status))
	if j.phase == pausing && !j.ticks.pending.IsZero() { // in place of the next try
		j.phase = idle
	}
	return fx.and(j.proceed(now))
}

// proceed fires the pending tick when no run goes, and looks for the next one.
func (j *Job) proceed(now Moment) Effects {
	nextRunAt(j.ticks.look())(&j.status.TaskStatus)
	if j.phase != idle {
		return Effects{}
	}
	if j.ticks.pending.IsZero() && j.status.triggered(j.asked) {
		j.ticks.pull(j.asked.Trigger)
	}
	at := j.ticks.fire()
	if at.IsZero() {
		j.status.set(j.task, record.StateWaiting, now)
		return Effects{Note: true}
	}
	j.try.start, j.try.refused = tasks.Start{Attempt: 1, ScheduledAt: at}, 0
	return j.run(now)
}

// Stopped takes that the key is to be released, or is lost.
func (j *Job) Stopped(cause error, now Moment) Effects {
	if j.exit.stop == nil {
		j.exit.stop = cause
	}
	switch j.phase {
	case idle, pausing:
		return j.leave(j.exit.stop, now)
	case active:
		return Effects{Cut: cause}
	case leaving, concluded:
	}
	return Effects{}
}

// Changed takes the task as it is declared now. What needs no restart takes effect while the run goes on.
func (j *Job) Changed(t *tasks.Task, now Moment) Effects {
	switch {
	case j.phase == concluded:
		return Effects{}
	case j.exit.next == nil && !t.NeedsRestart(*j.task):
		j.task = t
		return Effects{}
	}
	other := j.status.follow(t, now)
	if other {
		j.try.before.tick = 0
	}
	return Effects{Note: other}.and(j.beginAs(t, errChanged, now))
}

// beginAs ends what goes on, and begins again as t.
func (j *Job) beginAs(t *tasks.Task, why error, now Moment) Effects {
	j.exit.next = t
	switch j.phase {
	case idle, pausing:
		return j.leave(errChanged, now)
	case active:
		return Effects{Cut: why}
	case leaving, concluded:
	}
	return Effects{}
}

// Ask takes what operators ask of the task now. token is that of the last start.
func (j *Job) Ask(a taskrun.Asked, token int64, now Moment) Effects {
	j.asked = a
	if j.exit.wanted() || j.phase >= leaving {
		return Effects{}
	}
	var fx Effects
	if a.Restart > 0 && a.Restart >= token {
		fx = j.restart(now)
	}
	if j.ticks != nil && j.phase == idle && j.status.triggered(a) {
		fx = fx.and(j.proceed(now))
	}
	return fx
}

// restart ends what runs, or waits to be tried again, and starts it. A run of a tick is started for the same tick.
func (j *Job) restart(now Moment) Effects {
	switch {
	case j.phase != active && j.phase != pausing:
		return Effects{}
	case j.ticks == nil:
		return j.beginAs(j.task, errRestarted, now)
	case !j.ticks.pending.IsZero(): // it is on its way
		return Effects{}
	}
	j.ticks.pending = j.try.start.ScheduledAt
	if j.phase == active {
		return Effects{Cut: errRestarted}
	}
	j.phase = idle
	return j.proceed(now)
}

// leave begins the end, for the reason given.
func (j *Job) leave(why error, now Moment) Effects {
	j.phase, j.exit.result = leaving, why
	if _, ok := j.task.Runner.(taskrun.Leaver); ok && j.try.ran && j.ticks == nil {
		return Effects{Leave: true}
	}
	return j.Left(now)
}

// Left takes that nothing of the task is left.
func (j *Job) Left(now Moment) Effects {
	next, over := j.exit.done()
	if next != nil {
		j.task = next
		return Effects{Fresh: true}.and(j.Begin(j.asked, 0, now))
	}
	j.phase = concluded
	fx := Effects{Over: over, Note: j.ticks != nil} // which ticks are dealt with is not lost
	if errors.Is(over, taskrun.ErrDone) {
		j.status.showOutcome(j.task, now)
		fx.Note = true
	}
	return fx
}
