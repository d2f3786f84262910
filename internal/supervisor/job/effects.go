package job

import (
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Moment is a point in time by two clocks. The wall clock is for ticks and for people, and may be set at any time; the
// steady one is for pauses.
type Moment struct{ Wall, Steady time.Time }

// Effects are what is to be done, in this order. The zero value is nothing.
type Effects struct {
	Cut     error             // the run is to be asked to stop, for this reason
	Ended   []Ran             // runs to be counted
	Missed  MissedTick        // a tick that is not run
	Ahead   time.Time         // a tick that does not count: it was fired by a clock that was far ahead
	Looping taskrun.CrashLoop // with failures: it ends again and again
	Invalid error             // the task cannot run at all
	Fresh   bool              // it begins again: nothing is left of what ran before
	Note    bool              // the lease gets the status, if it knows another
	Run     bool              // the start is to be run
	Leave   bool              // the runner is to take leave
	Over    error             // nothing is left; what the task ended with
}

// and returns both effects, as one.
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

// Ran is one run that ended.
type Ran struct {
	Result taskrun.Result
	Took   time.Duration
	Err    error
	Start  tasks.Start
	Code   int
	Again  bool // it is tried again
	Trace  taskrun.TraceContext
}

// MissedTick is a tick that is not run, and how late it came; zero: none.
type MissedTick struct {
	At   time.Time
	Late time.Duration
}
