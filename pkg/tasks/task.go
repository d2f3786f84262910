package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Task is a named piece of work. With Schedule or Every it is fired at each tick; with neither it runs for as long
// as it is owned.
//
// A Task is a value: neither it nor what it refers to is changed once it is made.
type Task struct {
	Group, Name string
	Index       string // its place in the braces of its name, SHARDCTL_INDEX; empty without braces
	Labels      map[string]string
	Weight      int // share of the load, at least 1
	Discovered  Discovered

	Runner Runner // what runs

	Stop        Stop
	Restart     RestartPolicy // of a task without ticks
	Backoff     Backoff       // between restarts
	MaxRestarts int           // then failed; 0: no limit

	Timing
}

// Key is what is locked for the task.
func (t Task) Key() elect.Key { return elect.NewKey(t.Group, t.Name) }

// Identity says which task it is.
func (t Task) Identity() Identity {
	return Identity{Group: t.Group, Name: t.Name, Index: t.Index, Labels: t.Labels, Discovered: t.Discovered}
}

// Subscribes says whether the task is a subscription: one that may be behind.
func (t Task) Subscribes() bool {
	_, is := t.Runner.(TaskRunner)
	return is
}

// Timing says when a task is fired and what holds for its runs at ticks. The zero value is a task without ticks.
type Timing struct {
	Schedule      string        // cron expression, five fields or a descriptor; empty: none
	Every         time.Duration // 0: none
	TimeZone      string        // of Schedule; empty: UTC
	Overlap       Overlap
	CatchUp       CatchUp
	CatchUpWindow time.Duration
	Timeout       time.Duration // of one run at a tick; 0: none
	Retry         Retry         // of one run at a tick
}

// Ticks says whether the task is fired by a schedule.
func (t Timing) Ticks() bool { return t.Schedule != "" || t.Every > 0 }

// Kind is the kind of the task's runner, as exec; empty without one.
func (t Task) Kind() string {
	if t.Runner == nil {
		return ""
	}
	return t.Runner.Kind()
}

// RestartPolicy says what happens when a task without ticks ends by itself.
type RestartPolicy string

// The restart policies.
const (
	RestartAlways    RestartPolicy = "always"
	RestartOnFailure RestartPolicy = "on-failure"
	RestartNever     RestartPolicy = "never" // its outcome is kept in the store: done is done on every replica
)

// Overlap says what a tick does when the run before it still goes.
type Overlap string

// What a tick may do.
const (
	OverlapSkip    Overlap = "skip"
	OverlapReplace Overlap = "replace"
)

// CatchUp says which ticks missed while the task had no owner are run.
type CatchUp string

// What may be caught up.
const (
	CatchUpNone CatchUp = "none"
	CatchUpLast CatchUp = "last"
)

// Backoff is an exponential delay, doubled from Initial to Max with jitter, and back at Initial after a run
// of at least ResetAfter.
type Backoff struct {
	Initial, Max, ResetAfter time.Duration
}

// Retry says how often one run at a tick is tried.
type Retry struct {
	Attempts int // in all, at least 1
	Backoff  Backoff
}

// NeedsRestart says whether a run of old must start again to become t. Every other difference, such as labels,
// weight, stop and the restart policy, takes effect while the run goes on: see [Supervisor.Declare].
func (t Task) NeedsRestart(old Task) bool {
	return old.Index != t.Index || old.Discovered != t.Discovered || old.Schedule != t.Schedule ||
		old.Every != t.Every || old.TimeZone != t.TimeZone || old.Kind() != t.Kind() ||
		t.Runner != nil && t.Runner.NeedsRestart(old.Runner)
}
