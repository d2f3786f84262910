package tasks

import (
	"errors"
	"time"
)

// lateTick is how late a tick that this replica waited for may be without counting as missed.
const lateTick = 30 * time.Second

// beginTicks looks at what was fired before, here or elsewhere, and at what was missed meanwhile.
func (j *job) beginTicks(now moment) effects {
	schedule, err := j.task.schedule()
	if err != nil {
		j.set(StateFailed, now, lastError(err))
		return effects{invalid: err, note: true}
	}
	j.ticks = &ticks{schedule: schedule, last: now.wall}
	before := max(j.status.LastTick, j.status.FirstSeen)
	if before == 0 { // declared for the first time: nothing was missed
		before = now.wall.UnixMilli()
		j.status.FirstSeen = before
	}
	if j.task.CatchUp == CatchUpLast {
		j.ticks.pending = newest(schedule, time.UnixMilli(before), now.wall, j.task.CatchUpWindow)
	}
	if fired := time.UnixMilli(j.status.LastTick); fired.After(now.wall) {
		j.ticks.last = fired // the owner before was ahead by its clock; what it fired stays fired
	}
	return j.proceed(now)
}

// proceed fires the pending tick when no run goes, and looks for the next one.
func (j *job) proceed(now moment) effects {
	t := j.ticks
	t.next = t.schedule.Next(t.last)
	nextRunAt(t.next)(&j.status)
	switch {
	case j.phase != idle:
		return effects{}
	case t.pending.IsZero():
		j.set(StateWaiting, now)
		return effects{note: true}
	}
	j.start, j.refused = Start{Attempt: 1, ScheduledAt: t.pending}, 0
	j.status.LastTick, t.pending = t.pending.UnixMilli(), time.Time{}
	return j.run(now)
}

// due deals with a tick whose time has come.
func (j *job) due(now moment) effects {
	t := j.ticks
	if t.next.IsZero() || now.wall.Before(t.next) {
		return effects{}
	}
	// Of several that came at once, since the clock was set or this machine slept, the newest counts, as after a
	// fail-over.
	t.last = newest(t.schedule, t.last, now.wall, now.wall.Sub(t.next))
	var fx effects
	late := now.wall.Sub(t.last)
	switch {
	case late > lateTick && (j.task.CatchUp == CatchUpNone || late > j.task.CatchUpWindow):
		fx.missed = late
	case j.phase == idle:
		t.pending = t.last
	case j.task.Overlap != OverlapReplace:
		fx.ended = []runCount{{result: ResultSkipped}}
	case j.phase == pausing: // between two tries
		j.phase, t.pending = idle, t.last
	default:
		fx.cut, t.pending = errReplaced, t.last
	}
	return fx.and(j.proceed(now))
}

// tried decides what follows a try of a tick.
func (j *job) tried(r ran, now moment) effects {
	result, err := tickResult(r.ending, r.cause)
	fx := effects{ended: []runCount{{result, r.took, err}}}
	if j.refused = 0; result == ResultStopped || result == ResultReplaced {
		return fx
	}
	j.status.LastError = display(err)
	again := err != nil && r.start.Attempt < j.task.Retry.Attempts
	if !again || j.stop != nil || j.next != nil || !j.ticks.pending.IsZero() {
		return fx
	}
	j.pause(j.task.Retry.Backoff.delay(r.start.Attempt-1), now)
	j.set(StateBackoff, now)
	fx.note = true
	return fx
}

// tickResult says how a try ended, given why it was asked to stop, if it was.
func tickResult(end Ending, cause error) (Result, error) {
	switch {
	case !end.Cut && end.Err == nil:
		return ResultSucceeded, nil
	case !end.Cut:
		return ResultFailed, end.Err
	case errors.Is(cause, errTimeout):
		return ResultTimeout, errors.Join(errTimeout, end.Err)
	case errors.Is(cause, errReplaced):
		return ResultReplaced, nil
	default:
		return ResultStopped, nil
	}
}

// schedule is that of t's ticks. It fails when t has none, or what t says is wrong.
func (t Task) schedule() (Schedule, error) {
	switch {
	case t.Schedule != "":
		return ParseSchedule(t.Schedule, t.TimeZone)
	case t.Every > 0:
		return EverySchedule(t.Key(), t.Every)
	default:
		return nil, errors.New("task has neither schedule nor every")
	}
}
