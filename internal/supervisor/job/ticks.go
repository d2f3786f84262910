package job

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// lateTick is how late a tick that this replica waited for may be without counting as missed.
const lateTick = 30 * time.Second

// ticks is where a job with ticks stands in its schedule. All times are by the wall clock.
type ticks struct {
	schedule schedule.Schedule
	last     time.Time // ticks up to here have been dealt with
	next     time.Time // the first after it; zero: none
	pending  time.Time // a tick to fire as soon as no run goes; zero: none
	trigger  int64     // the last tick that an operator asked for and that was pending, Unix ms
}

// ticksOf takes up the ticks of t: it looks at what was fired before, here or elsewhere, and at what was missed
// meanwhile. It returns nil if the schedule is wrong.
func ticksOf(t *tasks.Task, s *status, asked taskrun.Asked, now Moment) (*ticks, Effects) {
	schedule, err := scheduleOf(t)
	if err != nil {
		s.set(t, record.StateFailed, now, lastError(err))
		return nil, Effects{Invalid: err, Note: true}
	}
	if max(s.LastTick, s.FirstSeen, s.TicksTo) == 0 {
		s.FirstSeen = now.Wall.UnixMilli() // declared for the first time: nothing was missed
	}
	s.follow(t, now)
	fx := Effects{Ahead: s.CorrectTicks(now.Wall)}
	if s.Undeclared { // since when it is declared again is not known: it is taken up soon after
		s.advance(now.Wall)
		s.Undeclared = false
	}
	resumed := record.Bounded(asked.Resumed, now.Wall.UnixMilli())
	before := max(s.LastTick, s.FirstSeen, s.TicksTo, resumed)
	k, missed := takeUp(&t.Timing, schedule, time.UnixMilli(before), time.UnixMilli(s.LastTick), now.Wall)
	if missed.Late > 0 {
		s.advance(missed.At)
	}
	fx.Missed = missed
	return k, fx
}

// scheduleOf returns the schedule of t's ticks. It fails when t has none, or what t says is wrong.
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

// look finds the tick to wait for; zero: there is none.
func (t *ticks) look() time.Time {
	t.next = t.schedule.Next(t.last)
	return t.next
}

// come takes the tick whose time has come, and returns how late it is, or false if there is none. Several come at once
// when the clock was set or this machine slept. Then the newest counts, as after a fail-over.
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

// setBack deals with a clock that was far ahead while this owner waited for its ticks, and has been set right.
func (t *ticks) setBack(s *status, now Moment) Effects {
	if !record.Ahead(t.last.UnixMilli(), now.Wall.UnixMilli()) {
		return Effects{}
	}
	fx := Effects{Ahead: t.last, Note: true}
	s.CorrectTicks(now.Wall)
	t.last = now.Wall
	if t.pending.After(now.Wall) && t.pending.UnixMilli() != t.trigger {
		t.pending = time.Time{}
	}
	nextRunAt(t.look())(&s.TaskStatus)
	return fx
}

// meet deals with a tick at which the job stands in phase p. It is pending, if it is to be fired.
func (t *ticks) meet(at time.Time, late time.Duration, timing *tasks.Timing, p phase, s *status) (fx Effects) {
	switch {
	case late > lateTick && (timing.CatchUp == tasks.CatchUpNone || late > timing.CatchUpWindow):
		fx.Missed = MissedTick{at, late}
		s.advance(at)
	case p == idle:
		t.pending = at
	case timing.Overlap != tasks.OverlapReplace:
		fx.Ended, fx.Note = []Ran{skipped(at)}, true
		s.advance(at)
	case p == pausing: // between two tries
		t.pending = at
	default:
		if !t.pending.IsZero() {
			fx.Ended = []Ran{skipped(t.pending)}
		}
		fx.Cut, t.pending = errReplaced, at
	}
	return fx
}

func skipped(tick time.Time) Ran {
	return Ran{Result: taskrun.ResultSkipped, Start: tasks.Start{ScheduledAt: tick}}
}

// pull makes a tick that an operator asked for the pending one.
func (t *ticks) pull(trigger int64) {
	t.trigger = trigger
	t.pending = time.UnixMilli(trigger).UTC()
}
