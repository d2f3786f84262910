package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Runner is the work of a task: its kind with that kind's fields filled in. It is a value that is never changed, and
// its methods may be called concurrently. Package exec runs commands, httptask calls HTTP endpoints, callback calls
// Go functions.
//
// A runner knows nothing of schedules, restarts, stop time-outs and deadlines: it runs once when Run is called, and
// ends when its context does.
type Runner interface {
	// Kind is the field of a task by which the runner is chosen, as exec: it names the kind in status and logs.
	Kind() string
	// Validate says what is wrong with it, all at once. Fields with variables are looked at when their values are
	// known.
	Validate(use Use) []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in: text, a list, or [decode.Fields].
	Print(use Use) any
	// NeedsRestart says whether a run that was started as old, of the same kind, must start again to be this.
	NeedsRestart(old Runner) bool
	// Run does the work once and returns when nothing of it is left, soon after ctx ends. Between ticks it goes on
	// for as long as ctx does.
	Run(ctx context.Context, env Env) Ending
}

// Leaver is a Runner with something to do before its task, one without ticks, leaves the replica or begins again
// with other fields. Leave is called after the last Run, and the key goes on when it returns. What the remote lease
// promised bounds it.
type Leaver interface {
	Runner
	Leave(ctx context.Context, env Env)
}

// Use is what a runner is used for.
type Use struct {
	Ticks     bool          // by a task that is fired by a schedule
	Lease     time.Duration // of the replica as configured; it may run with another until it is restarted
	Callbacks *Registry     // nil: not known
}

// Start is one start of a task's work.
type Start struct {
	// Token is the fencing token of this start: larger than that of every start of the task before it, anywhere.
	Token int64
	// Attempt counts from 1: tries of one tick, or starts of a task without ticks since the replica owns it.
	Attempt int
	// ScheduledAt is the tick that this start is for; zero for a task without ticks.
	ScheduledAt time.Time
}

// Ending is how a run ended.
type Ending struct {
	Err      error // nil: success
	Code     int   // exit status; of what has none, 0 or 1
	ByItself bool  // the work ran and ended by itself: the restart policy decides
	Cut      bool  // it had to stop
}

// NotStarted is the ending of work that could not be started: it is tried again, whatever the restart policy.
func NotStarted(ctx context.Context, err error) Ending {
	return Ending{Err: fmt.Errorf("not started: %w", err), Code: 1, Cut: ctx.Err() != nil}
}

// Ended is the ending of work that returned err by itself. What was cut off cannot be distinguished from what had just
// finished: after ctx has ended it counts as cut.
func Ended(ctx context.Context, err error) Ending {
	end := Ending{Err: err, ByItself: true, Cut: ctx.Err() != nil}
	if err != nil {
		end.Code = 1
	}
	return end
}

// NeedsRestart says whether a run of old must start again to become next. Every other difference, such as labels,
// weight, stop and the restart policy, takes effect while the run goes on: see [Supervisor.Declare].
func NeedsRestart(old, next Task) bool {
	return old.Index != next.Index || old.Schedule != next.Schedule || old.Every != next.Every ||
		old.TimeZone != next.TimeZone ||
		old.Kind() != next.Kind() || next.Runner != nil && next.Runner.NeedsRestart(old.Runner)
}
