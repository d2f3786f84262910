package job

import (
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Effects are what is to be done, in this order. The zero value is nothing.
type Effects struct {
	Cut     error           // the run is to be asked to stop, for this reason
	Ended   []Ran           // runs to be counted
	Missed  MissedTick      // a tick that is not run
	Ahead   time.Time       // a tick that does not count: it was fired by a clock that was far ahead
	Looping tasks.CrashLoop // with failures: it ends again and again
	Invalid error           // the task cannot run at all
	Fresh   bool            // it begins again: nothing is left of what ran before
	Note    bool            // the lease gets the status, if it knows another
	Run     bool            // the start is to be run
	Leave   bool            // the runner is to take leave
	Over    error           // nothing is left; what the task ended with
}

// and is both effects, as one.
func (fx Effects) and(more Effects) Effects {
	fx.Ended = append(fx.Ended, more.Ended...)
	if more.Missed.Late > fx.Missed.Late {
		fx.Missed = more.Missed
	}
	if fx.Ahead.IsZero() {
		fx.Ahead = more.Ahead
	}
	if more.Looping.Failures > 0 {
		fx.Looping = more.Looping
	}
	fx.Fresh = fx.Fresh || more.Fresh
	fx.Note = fx.Note || more.Note
	fx.Run = fx.Run || more.Run
	fx.Leave = fx.Leave || more.Leave
	if more.Cut != nil {
		fx.Cut = more.Cut
	}
	if more.Invalid != nil {
		fx.Invalid = more.Invalid
	}
	if more.Over != nil {
		fx.Over = more.Over
	}
	return fx
}

// Reports says whether the lease is to get the job's status now. The status of a start without a token, with its tick,
// counts only once the lock is advanced to it.
func (fx Effects) Reports(j *Job) bool { return fx.Note && (j.phase != active || j.start.Token > 0) }

// Ran is one run that ended.
type Ran struct {
	Result tasks.Result
	Took   time.Duration
	Err    error
	Start  tasks.Start
	Code   int
	Again  bool // it is tried again
	Trace  tasks.TraceContext
}

// MissedTick is a tick that is not run, and how late it came; zero: none.
type MissedTick struct {
	At   time.Time
	Late time.Duration
}

// Attempt is what became of a start.
type Attempt struct {
	Start   tasks.Start
	Refused error // the lock was not advanced: nothing ran
	Ending  tasks.Ending
	Cause   error // why the run was asked to stop; nil: it was not
	Took    time.Duration
	Trace   tasks.TraceContext
}

// Result is how a run ended.
func (r Attempt) Result() tasks.Result {
	if r.Start.ScheduledAt.IsZero() {
		return keepResult(r.Ending)
	}
	result, _ := tickResult(r.Ending, r.Cause)
	return result
}
