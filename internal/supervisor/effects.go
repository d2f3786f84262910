package supervisor

import (
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// effects are what is to be done, in this order. The zero value is nothing.
type effects struct {
	cut     error           // the run is to be asked to stop, for this reason
	ended   []runCount      // runs to be counted
	missed  missedTick      // a tick that is not run
	ahead   time.Time       // a tick that does not count: it was fired by a clock that was far ahead
	looping tasks.CrashLoop // with failures: it ends again and again
	invalid error           // the task cannot run at all
	fresh   bool            // it begins again: nothing is left of what ran before
	note    bool            // the lease gets the status, if it knows another
	run     bool            // the start is to be run
	leave   bool            // the runner is to take leave
	over    error           // nothing is left; what the task ended with
}

// and is both effects, as one.
func (fx effects) and(more effects) effects {
	fx.ended = append(fx.ended, more.ended...)
	if more.missed.late > fx.missed.late {
		fx.missed = more.missed
	}
	if fx.ahead.IsZero() {
		fx.ahead = more.ahead
	}
	if more.looping.Failures > 0 {
		fx.looping = more.looping
	}
	fx.fresh = fx.fresh || more.fresh
	fx.note = fx.note || more.note
	fx.run = fx.run || more.run
	fx.leave = fx.leave || more.leave
	if more.cut != nil {
		fx.cut = more.cut
	}
	if more.invalid != nil {
		fx.invalid = more.invalid
	}
	if more.over != nil {
		fx.over = more.over
	}
	return fx
}

// reports says whether the lease is to get the job's status now. The status of a start without a token, with its tick,
// counts only once the lock is advanced to it.
func (fx effects) reports(j *job) bool { return fx.note && (j.phase != active || j.start.Token > 0) }

// runCount is one run that ended.
type runCount struct {
	result tasks.Result
	took   time.Duration
	err    error
	start  tasks.Start
	code   int
	again  bool // it is tried again
	trace  tasks.TraceContext
}

// missedTick is a tick that is not run, and how late it came; zero: none.
type missedTick struct {
	at   time.Time
	late time.Duration
}

// attemptResult is what became of a start.
type attemptResult struct {
	start   tasks.Start
	refused error // the lock was not advanced: nothing ran
	ending  tasks.Ending
	cause   error // why the run was asked to stop; nil: it was not
	took    time.Duration
	trace   tasks.TraceContext
}

// result is how a run ended.
func (r attemptResult) result() tasks.Result {
	if r.start.ScheduledAt.IsZero() {
		return keepResult(r.ending)
	}
	result, _ := tickResult(r.ending, r.cause)
	return result
}
