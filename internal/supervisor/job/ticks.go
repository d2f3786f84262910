package job

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// lateTick is how late a tick that this replica waited for may be without counting as missed.
const lateTick = 30 * time.Second

// beginTicks looks at what was fired before, here or elsewhere, and at what was missed meanwhile.
func (j *Job) beginTicks(now Moment) Effects {
	schedule, err := scheduleOf(j.task)
	if err != nil {
		j.set(record.StateFailed, now, lastError(err))
		return Effects{Invalid: err, Note: true}
	}
	if max(j.status.LastTick, j.status.FirstSeen, j.status.TicksTo) == 0 {
		j.status.FirstSeen = now.Wall.UnixMilli() // declared for the first time: nothing was missed
	}
	followSchedule(&j.status, j.task, now.Wall)
	fx := Effects{Ahead: j.status.CorrectTicks(now.Wall)}
	if j.status.Undeclared { // since when it is declared again is not known: it is taken up soon after
		advanceTicks(&j.status, now.Wall)
		j.status.Undeclared = false
	}
	resumed := record.Bounded(j.asked.Resumed, now.Wall.UnixMilli())
	before := max(j.status.LastTick, j.status.FirstSeen, j.status.TicksTo, resumed)
	var missed MissedTick
	j.ticks, missed = takeUp(&j.task.Timing, schedule, time.UnixMilli(before), time.UnixMilli(j.status.LastTick), now.Wall)
	if missed.Late > 0 {
		advanceTicks(&j.status, missed.At)
	}
	fx.Missed = missed
	return fx.and(j.proceed(now))
}

// setBack deals with a clock that was far ahead while this owner waited for its ticks, and has been set right.
func (j *Job) setBack(now Moment) Effects {
	t := j.ticks
	if !record.Ahead(t.last.UnixMilli(), now.Wall.UnixMilli()) {
		return Effects{}
	}
	fx := Effects{Ahead: t.last, Note: true}
	j.status.CorrectTicks(now.Wall)
	t.last = now.Wall
	if t.pending.After(now.Wall) && t.pending.UnixMilli() != t.trigger {
		t.pending = time.Time{}
	}
	nextRunAt(t.look())(&j.status)
	return fx
}

// followSchedule notes of which schedule the ticks are from now on, and says whether it was another one. None of it was
// missed before.
func followSchedule(s *elect.TaskStatus, t *tasks.Task, now time.Time) (other bool) {
	was, is := s.Schedule, digest(&t.Timing)
	if !t.Ticks() && was == "" {
		return false
	}
	if other = was != "" && was != is; other {
		s.LastTick, s.TicksTo = 0, now.UnixMilli()
	}
	s.Schedule = is
	return other
}

// digest identifies a schedule, and that there is none.
func digest(t *tasks.Timing) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s\x00%s\x00%d", t.Schedule, t.TimeZone, t.Every) // a hash's Write never fails
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}

// advanceTicks notes that ticks up to a moment are dealt with.
func advanceTicks(s *elect.TaskStatus, at time.Time) { s.TicksTo = max(s.TicksTo, at.UnixMilli()) }

// proceed fires the pending tick when no run goes, and looks for the next one.
func (j *Job) proceed(now Moment) Effects {
	t := j.ticks
	nextRunAt(t.look())(&j.status)
	if j.phase != idle {
		return Effects{}
	}
	if t.pending.IsZero() && triggered(j.asked, j.status) {
		t.trigger = j.asked.Trigger
		t.pending = time.UnixMilli(t.trigger).UTC()
	}
	at := t.fire()
	if at.IsZero() {
		j.set(record.StateWaiting, now)
		return Effects{Note: true}
	}
	j.start, j.refused = tasks.Start{Attempt: 1, ScheduledAt: at}, 0
	return j.run(now)
}

// fired is what the status says was fired last.
type fired struct{ tick, trigger int64 }

// fire notes the start's tick in the status, which the lock gets before it runs, and returns what was fired before.
func fire(s *elect.TaskStatus, start tasks.Start, t *ticks) (before fired) {
	before = fired{s.LastTick, s.LastTrigger}
	switch ms := start.ScheduledAt.UnixMilli(); {
	case start.ScheduledAt.IsZero():
	case ms == t.trigger:
		s.LastTrigger = ms
	default:
		s.LastTick = ms
	}
	return before
}

// restore takes a fire back, where the lock did not get it.
func (f fired) restore(s *elect.TaskStatus) { s.LastTick, s.LastTrigger = f.tick, f.trigger }

// due deals with a tick whose time has come.
func (j *Job) due(now Moment) Effects {
	t := j.ticks
	fx := j.setBack(now)
	at, late, ok := t.come(now.Wall)
	if !ok {
		return fx
	}
	switch {
	case late > lateTick && (j.task.CatchUp == tasks.CatchUpNone || late > j.task.CatchUpWindow):
		fx.Missed = MissedTick{at, late}
		advanceTicks(&j.status, at)
	case j.phase == idle:
		t.pending = at
	case j.task.Overlap != tasks.OverlapReplace:
		fx.Ended, fx.Note = []Ran{skipped(at)}, true
		advanceTicks(&j.status, at)
	case j.phase == pausing: // between two tries
		j.phase, t.pending = idle, at
	default:
		if !t.pending.IsZero() {
			fx.Ended = []Ran{skipped(t.pending)}
		}
		fx.Cut, t.pending = errReplaced, at
	}
	return fx.and(j.proceed(now))
}

func skipped(tick time.Time) Ran {
	return Ran{Result: tasks.ResultSkipped, Start: tasks.Start{ScheduledAt: tick}}
}

// tried decides what follows a try of a tick.
func (j *Job) tried(r Attempt, now Moment) Effects {
	result, err := tickResult(r.Ending, r.Cause)
	run := Ran{Result: result, Took: r.Took, Err: err, Start: r.Start, Code: r.Ending.Code, Trace: r.Trace}
	fx := Effects{Ended: []Ran{run}}
	if j.refused = 0; result == tasks.ResultStopped || result == tasks.ResultReplaced {
		return fx
	}
	j.status.LastError = display(err)
	again := err != nil && r.Start.Attempt < j.task.Retry.Attempts
	if !again || j.stop != nil || j.next != nil || !j.ticks.pending.IsZero() {
		return fx
	}
	j.pause(j.task.Retry.Backoff.Delay(r.Start.Attempt-1), now)
	j.set(record.StateBackoff, now)
	fx.Note, fx.Ended[0].Again = true, true
	return fx
}

// tickResult says how a try ended, given why it was asked to stop, if it was.
func tickResult(end tasks.Ending, cause error) (tasks.Result, error) {
	switch {
	case !end.Cut && end.Err == nil:
		return tasks.ResultSucceeded, nil
	case !end.Cut:
		return tasks.ResultFailed, end.Err
	case errors.Is(cause, ErrTimeout) && errors.Is(end.Err, ErrTimeout):
		return tasks.ResultTimeout, end.Err
	case errors.Is(cause, ErrTimeout):
		return tasks.ResultTimeout, errors.Join(ErrTimeout, end.Err)
	case errors.Is(cause, errReplaced):
		return tasks.ResultReplaced, nil
	default:
		return tasks.ResultStopped, nil
	}
}

// scheduleOf is that of t's ticks. It fails when t has none, or what t says is wrong.
func scheduleOf(t *tasks.Task) (schedule.Schedule, error) {
	switch {
	case t.Schedule != "":
		return schedule.Parse(t.Schedule, t.TimeZone)
	case t.Every > 0:
		return schedule.Every(string(t.Key()), t.Every)
	default:
		return nil, errors.New("task has neither schedule nor every")
	}
}

// ticks is where a job with ticks stands in its schedule. All times are by the wall clock.
type ticks struct {
	schedule schedule.Schedule
	last     time.Time // ticks up to here have been dealt with
	next     time.Time // the first after it; zero: none
	pending  time.Time // a tick to fire as soon as no run goes; zero: none
	trigger  int64     // the last tick that an operator asked for and that was pending, Unix ms
}

// look finds the tick to wait for; zero: there is none.
func (t *ticks) look() time.Time {
	t.next = t.schedule.Next(t.last)
	return t.next
}

// come takes the tick whose time has come, and says how late it is; false: there is none. Several come at once when
// the clock was set or this machine slept. Then the newest counts, as after a fail-over.
func (t *ticks) come(now time.Time) (at time.Time, late time.Duration, ok bool) {
	if t.next.IsZero() || now.Before(t.next) {
		return time.Time{}, 0, false
	}
	t.last = schedule.NewestIn(t.schedule, t.last, now, now.Sub(t.next))
	return t.last, now.Sub(t.last), true
}

// fire takes the pending tick; zero: there is none.
func (t *ticks) fire() time.Time {
	at := t.pending
	t.pending = time.Time{}
	return at
}

// takeUp begins after the ticks up to before, which an earlier owner of the key has dealt with. It fired the last one
// at fired. The newest of those missed since is pending when the timing says that it is caught up. Otherwise it is
// returned.
func takeUp(t *tasks.Timing, s schedule.Schedule, before, fired, now time.Time) (*ticks, MissedTick) {
	k := &ticks{schedule: s, last: now}
	if fired.After(now) {
		k.last = fired // the owner before was ahead by its clock; what it fired stays fired
	}
	if t.CatchUp == tasks.CatchUpLast {
		k.pending = schedule.NewestIn(s, before, now, t.CatchUpWindow)
	}
	if !k.pending.IsZero() {
		return k, MissedTick{}
	}
	at := schedule.NewestIn(s, before, now, max(0, now.Sub(before)))
	if at.IsZero() {
		return k, MissedTick{}
	}
	return k, MissedTick{at, now.Sub(at)}
}
