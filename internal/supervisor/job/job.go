// Package job decides what is done for a task whose key is held: when it starts, what follows a run, which ticks count.
// It reads no clock and does no I/O.
package job

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// phase is where a job stands.
type phase uint8

const (
	idle    phase = iota // nothing goes on: it waits for a tick, or for nothing
	active               // a run goes on
	pausing              // it waits for the time of the next try
	leaving              // nothing runs, and its runner takes leave
	concluded
)

// Job is one task under one lease, as a state machine that owns the task's status. It starts no goroutine, does no I/O
// and reads no clock. Its methods are what has happened, and return what is to be done about it.
//
//	begin        start           ended, to be tried again
//	──────▶ idle ─────▶ active ───────────────────────────▶ pausing
//	         ▲            │  ▲                                 │
//	         └────────────┘  └─────────────────────────────────┘
//	          ended, with ticks           its time has come
//
// From each of these it goes to leaving, and then is over, when it is asked to stop or has ended for good. A change
// of the task that needs a restart takes the same way, and begins again in place of being over.
type Job struct {
	task   *tasks.Task // it is never changed
	ticks  *ticks      // nil for a task without ticks
	status elect.TaskStatus

	phase    phase
	start    tasks.Start // of the run that goes on, or was tried last
	before   fired       // what was fired before the start
	failures int         // in a row, of starts without ticks
	refused  int         // in a row, of writes of the lock before a start
	retryAt  time.Time   // by the steady clock, while pausing
	load     meter
	hasRun   bool        // since it began: its runner may have to take leave
	asked    tasks.Asked // by operators

	stop   error       // why it has to end; nil: it need not
	next   *tasks.Task // what it begins again as; nil: it does not
	result error       // why it leaves
}

// New takes up a task under the status that the lock holds. Begin it.
func New(t *tasks.Task, status elect.TaskStatus) *Job { return &Job{task: t, status: status} }

// Task returns the task as the job runs it.
func (j *Job) Task() *tasks.Task { return j.task }

// Status returns the status that the lock should have.
func (j *Job) Status() elect.TaskStatus { return j.status }

// Asked returns what operators ask of the task, as far as the job knows.
func (j *Job) Asked() tasks.Asked { return j.asked }

// Start returns the start that goes on, or was tried last.
func (j *Job) Start() tasks.Start { return j.start }

// Ticks reports whether the task is fired at ticks. A wrong schedule has none.
func (j *Job) Ticks() bool { return j.ticks != nil }

// Waiting reports whether the job waits for a tick, so that nothing has to be kept for it.
func (j *Job) Waiting() bool { return j.ticks != nil && j.phase == idle }

// HasRun reports whether anything was run since the task began, or began again.
func (j *Job) HasRun() bool { return j.hasRun }

// Begin begins the task under what operators ask of it. The token is that of the claim.
func (j *Job) Begin(asked tasks.Asked, token int64, now Moment) Effects {
	j.asked = asked
	return j.begin(token, now)
}

// Ended takes what became of the start, and what operators ask of the task now.
func (j *Job) Ended(asked tasks.Asked, r Attempt, now Moment) Effects {
	j.asked = asked
	return j.ended(r, now)
}

// run begins the start. One without a token gets it by advancing the lock to the status.
func (j *Job) run(now Moment) Effects {
	j.phase, j.hasRun = active, true
	j.before = fire(&j.status, j.start, j.ticks)
	j.set(record.StateStarting, now)
	return Effects{Run: true, Note: j.start.Token > 0}
}

// pause waits before the next try.
func (j *Job) pause(d time.Duration, now Moment) {
	j.phase, j.retryAt = pausing, now.Steady.Add(d)
}

// set changes the status.
func (j *Job) set(state string, now Moment, change ...func(*elect.TaskStatus)) {
	setState(&j.status, j.task, state, now.Wall, change...)
}

// Times are when the job is to be woken: at a tick, by the wall clock, and after a pause, by the steady one. The zero
// time is never.
func (j *Job) Times() (tick, retry time.Time) {
	if j.ticks != nil && j.phase < leaving {
		tick = j.ticks.next
	}
	if j.phase == pausing {
		retry = j.retryAt
	}
	return tick, retry
}

// Advanced takes that the lock was advanced for the start, or by its run, with the status as of then; 0: it was not.
func (j *Job) Advanced(token int64) Effects {
	j.start.Token = max(j.start.Token, token)
	return Effects{Note: true}
}

// Reported takes what the run says about itself.
func (j *Job) Reported(state string, change []func(*elect.TaskStatus), now Moment) Effects {
	if j.phase != active && j.phase != leaving {
		return Effects{} // too late
	}
	j.set(state, now, change...)
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

// begin starts the task, or has it wait for its ticks. The token is that of the claim, 0 once it has been used.
func (j *Job) begin(token int64, now Moment) Effects {
	outcome := j.status.Outcome
	j.status.Restarts, j.status.LastError, j.status.Settled, j.status.Outcome = 0, "", false, nil // an earlier owner's
	j.phase, j.ticks, j.failures, j.refused, j.hasRun = idle, nil, 0, 0, false
	if j.task.Ticks() {
		return j.beginTicks(now)
	}
	followSchedule(&j.status, j.task, now.Wall)
	j.status.Undeclared = false
	if err := hasEnded(j.task, outcome, j.asked); err != nil {
		j.status.Outcome = outcome
		return j.leave(err, now)
	}
	j.start = tasks.Start{Token: token, Attempt: 1}
	return j.run(now)
}

// Wake lets time pass.
func (j *Job) Wake(now Moment) Effects {
	var fx Effects
	if j.phase == pausing && !now.Steady.Before(j.retryAt) {
		fx = j.tryAgain(now)
	}
	if j.ticks != nil && j.phase < leaving {
		fx = fx.and(j.due(now))
	}
	return fx
}

// tryAgain goes on after a pause.
func (j *Job) tryAgain(now Moment) Effects {
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
func (j *Job) ended(r Attempt, now Moment) Effects {
	if j.phase != active {
		return Effects{}
	}
	var fx Effects
	j.phase, j.start = idle, r.Start
	switch {
	case r.Refused != nil:
		fx = j.unstarted(r.Refused, now)
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
func (j *Job) unstarted(err error, now Moment) Effects {
	j.before.restore(&j.status)
	switch {
	case j.stop != nil, j.next != nil, j.ticks != nil && !j.ticks.pending.IsZero():
		return Effects{}
	case errors.Is(err, elect.ErrLeaseLost), errors.Is(err, elect.ErrReleased),
		errors.Is(err, elect.ErrNotHeld), errors.Is(err, elect.ErrClosed):
		return j.leave(err, now)
	}
	j.refused++
	j.pause(advanceBackoff.Delay(j.refused-1), now)
	return Effects{Note: true}
}

// advanceBackoff spaces tries of a write that failed: the elector has its own limits for each.
var advanceBackoff = tasks.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second}

// Stopped takes that the key is to be released, or is lost.
func (j *Job) Stopped(cause error, now Moment) Effects {
	if j.stop == nil {
		j.stop = cause
	}
	switch j.phase {
	case idle, pausing:
		return j.leave(j.stop, now)
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
	case j.next == nil && !t.NeedsRestart(*j.task):
		j.task = t
		return Effects{}
	}
	other := followSchedule(&j.status, t, now.Wall)
	if other {
		j.before.tick = 0
	}
	return Effects{Note: other}.and(j.beginAs(t, errChanged, now))
}

// beginAs ends what goes on, and begins again as t.
func (j *Job) beginAs(t *tasks.Task, why error, now Moment) Effects {
	j.next = t
	switch j.phase {
	case idle, pausing:
		return j.leave(errChanged, now)
	case active:
		return Effects{Cut: why}
	case leaving, concluded:
	}
	return Effects{}
}

// leave begins the end, for the reason given.
func (j *Job) leave(why error, now Moment) Effects {
	j.phase, j.result = leaving, why
	if _, ok := j.task.Runner.(tasks.Leaver); ok && j.hasRun && j.ticks == nil {
		return Effects{Leave: true}
	}
	return j.Left(now)
}

// Left takes that nothing of the task is left.
func (j *Job) Left(now Moment) Effects {
	if j.stop == nil && errors.Is(j.result, errChanged) {
		j.task, j.next, j.result = j.next, nil, nil
		return Effects{Fresh: true}.and(j.begin(0, now))
	}
	j.phase = concluded
	why := j.result
	if errors.Is(why, errChanged) {
		why = j.stop
	}
	fx := Effects{Over: why, Note: j.ticks != nil} // which ticks are dealt with is not lost
	if errors.Is(why, tasks.ErrDone) {
		fx = fx.and(j.showOutcome(now))
	}
	return fx
}

// Ask takes what operators ask of the task now. token is that of the last start.
func (j *Job) Ask(a tasks.Asked, token int64, now Moment) Effects {
	j.asked = a
	if j.stop != nil || j.next != nil || j.phase >= leaving {
		return Effects{}
	}
	var fx Effects
	if a.Restart > 0 && a.Restart >= token {
		fx = j.restart(now)
	}
	if j.ticks != nil && j.phase == idle && triggered(a, j.status) {
		fx = fx.and(j.proceed(now))
	}
	return fx
}

// triggered says whether a tick more was asked for that a task with this status has not fired.
func triggered(a tasks.Asked, status elect.TaskStatus) bool { return a.Trigger > status.LastTrigger }

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
	j.ticks.pending = j.start.ScheduledAt
	if j.phase == active {
		return Effects{Cut: errRestarted}
	}
	j.phase = idle
	return j.proceed(now)
}

// Causes, beside those of package elect, of a run being asked to stop.
var (
	ErrTimeout   = errors.New("run took longer than its timeout")
	errReplaced  = errors.New("the next tick takes the place of this run")
	errRestarted = errors.New("an operator asked for a restart")
	errChanged   = errors.New("the task is declared with other fields now")
)

// loadEvery is the least time between two loads of a task that are noted.
const loadEvery = 30 * time.Second

// meter averages what is said of one task's load. It is a pure machine.
type meter struct {
	since time.Time // of the average; zero: nothing was said yet
	sum   float64
	n     int
}

// take adds a load to the average, and gives that when it is over loadEvery, or the first one.
func (m *meter) take(load float64, now time.Time) (mean float64, ok bool) {
	m.sum += load
	m.n++
	if !m.since.IsZero() && now.Sub(m.since) < loadEvery {
		return 0, false
	}
	mean = m.sum / float64(m.n)
	*m = meter{since: now}
	return mean, true
}

// Moment is a point in time by two clocks. The wall clock is for ticks and for people, and may be set at any time; the
// steady one is for pauses.
type Moment struct{ Wall, Steady time.Time }
