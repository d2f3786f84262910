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
	before := max(j.status.LastTick, j.status.FirstSeen)
	if before == 0 { // declared for the first time: nothing was missed
		before = now.wall.UnixMilli()
		j.status.FirstSeen = before
	}
	var missed missedTick
	j.ticks, missed = j.task.takeUp(schedule, time.UnixMilli(before), time.UnixMilli(j.status.LastTick), now.wall)
	return effects{missed: missed}.and(j.proceed(now))
}

// proceed fires the pending tick when no run goes, and looks for the next one.
func (j *job) proceed(now moment) effects {
	t := j.ticks
	nextRunAt(t.look())(&j.status)
	if j.phase != idle {
		return effects{}
	}
	if t.pending.IsZero() && j.asked.triggered(j.status) {
		j.status.LastTrigger = j.asked.Trigger
		t.pending = time.UnixMilli(j.asked.Trigger).UTC()
	}
	at := t.fire()
	if at.IsZero() {
		j.set(StateWaiting, now)
		return effects{note: true}
	}
	j.start, j.refused = Start{Attempt: 1, ScheduledAt: at}, 0
	if ms := at.UnixMilli(); ms != j.status.LastTrigger {
		j.status.LastTick = ms
	}
	return j.run(now)
}

// due deals with a tick whose time has come.
func (j *job) due(now moment) effects {
	t := j.ticks
	at, late, ok := t.come(now.wall)
	if !ok {
		return effects{}
	}
	var fx effects
	switch {
	case late > lateTick && (j.task.CatchUp == CatchUpNone || late > j.task.CatchUpWindow):
		fx.missed = missedTick{at, late}
	case j.phase == idle:
		t.pending = at
	case j.task.Overlap != OverlapReplace:
		fx.ended = []runCount{{result: ResultSkipped, start: Start{ScheduledAt: at}}}
	case j.phase == pausing: // between two tries
		j.phase, t.pending = idle, at
	default:
		fx.cut, t.pending = errReplaced, at
	}
	return fx.and(j.proceed(now))
}

// tried decides what follows a try of a tick.
func (j *job) tried(r ran, now moment) effects {
	result, err := tickResult(r.ending, r.cause)
	run := runCount{result: result, took: r.took, err: err, start: r.start, code: r.ending.Code, trace: r.trace}
	fx := effects{ended: []runCount{run}}
	if j.refused = 0; result == ResultStopped || result == ResultReplaced {
		return fx
	}
	j.status.LastError = display(err)
	again := err != nil && r.start.Attempt < j.task.Retry.Attempts
	if !again || j.stop != nil || j.next != nil || !j.ticks.pending.IsZero() {
		return fx
	}
	j.pause(j.task.Retry.Backoff.Delay(r.start.Attempt-1), now)
	j.set(StateBackoff, now)
	fx.note, fx.ended[0].again = true, true
	return fx
}

// tickResult says how a try ended, given why it was asked to stop, if it was.
func tickResult(end Ending, cause error) (Result, error) {
	switch {
	case !end.Cut && end.Err == nil:
		return ResultSucceeded, nil
	case !end.Cut:
		return ResultFailed, end.Err
	case errors.Is(cause, errTimeout) && errors.Is(end.Err, errTimeout):
		return ResultTimeout, end.Err
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
