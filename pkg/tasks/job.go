package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
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

// job is one task under one lease, as a state machine that owns the task's status. It starts no goroutine, does no I/O
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
type job struct {
	task   *Task  // it is never changed
	ticks  *ticks // nil for a task without ticks
	status elect.TaskStatus

	phase    phase
	start    Start     // of the run that goes on, or was tried last
	before   fired     // what was fired before the start
	failures int       // in a row, of starts without ticks
	refused  int       // in a row, of writes of the lock before a start
	retryAt  time.Time // by the steady clock, while pausing
	hasRun   bool      // since it began: its runner may have to take leave
	asked    Asked     // by operators

	stop   error // why it has to end; nil: it need not
	next   *Task // what it begins again as; nil: it does not
	result error // why it leaves
}

// newJob takes up a task under the status that the lock holds. Begin it.
func newJob(t *Task, status elect.TaskStatus) *job { return &job{task: t, status: status} }

// run begins the start. One without a token gets it by advancing the lock to the status.
func (j *job) run(now moment) effects {
	j.phase, j.hasRun = active, true
	j.fire()
	j.set(StateStarting, now)
	return effects{run: true, note: j.start.Token > 0}
}

// pause waits before the next try.
func (j *job) pause(d time.Duration, now moment) {
	j.phase, j.retryAt = pausing, now.steady.Add(d)
}

// set changes the status.
func (j *job) set(state string, now moment, change ...func(*elect.TaskStatus)) {
	setState(&j.status, j.task, state, now.wall, change...)
}

// times are when the job is to be woken: at a tick, by the wall clock, and after a pause, by the steady one. The zero
// time is never.
func (j *job) times() (tick, retry time.Time) {
	if j.ticks != nil && j.phase < leaving {
		tick = j.ticks.next
	}
	if j.phase == pausing {
		retry = j.retryAt
	}
	return tick, retry
}

// notes says whether the lease is to get the status now. The status of a start without a token, with its tick, counts
// only once the lock is advanced to it.
func (j *job) notes(fx effects) bool { return fx.note && (j.phase != active || j.start.Token > 0) }

// advanced takes that the lock was advanced for the start, with the status as of then.
func (j *job) advanced(token int64) effects {
	j.start.Token = token
	return effects{note: true}
}

// said takes what the run says about itself.
func (j *job) said(state string, change []func(*elect.TaskStatus), now moment) effects {
	if j.phase != active && j.phase != leaving {
		return effects{} // too late
	}
	j.set(state, now, change...)
	return effects{note: true}
}
