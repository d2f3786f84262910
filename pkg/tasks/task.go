// Package tasks is the work: what a task is, when it is due, and what a Go function that does it is given.
//
// A [Task] runs a command, calls an HTTP endpoint, or calls a Go function by its name in a [Registry]. It runs for as
// long as its key is held, or at each tick of a schedule. What runs it is not part of this package: a replica does, be
// it that of the program or of package shard. It restarts what ends, with backoff, stops what has to stop, and lets the
// key go on only when nothing of the work is left.
//
// # What is promised
//
// Every start has a fencing token of its own, larger than that of any start of the task before it, on any replica. The
// first is that of the claim, and before every other one the lock is advanced. A tick is noted in the lock before it
// runs, so it fires at most once in the cluster. A task with restart: never runs at least once, and once it has ended
// by itself it stays ended.
//
// # What is not
//
// A Go function that ignores its context cannot be ended: its key stays here, and an alarm is raised. A panic in a
// goroutine that such a function starts takes the process down. Work that a task starts elsewhere, processes that leave
// their process group, and a request that was sent are out of reach. A machine that is frozen and thaws may still be
// working on what another has taken over. What guards against all of these is the token: whatever tasks write to should
// refuse smaller tokens than it has seen.
package tasks

import (
	"cmp"
	"reflect"
	"time"
)

// Task is a named piece of work. With Schedule or Every it is fired at each tick; with neither it runs for as long
// as it is owned.
//
// A Task is a value: neither it nor what it refers to is changed once it is made.
type Task struct {
	Identity

	Runner Runner // what runs
	Weight int    // share of the load, at least 1; default 1

	Stop        Stop
	Restart     RestartPolicy // of a task without ticks; default always
	Backoff     Backoff       // between restarts
	MaxRestarts int           // then failed; 0: no limit

	Timing
}

// Subscribes says whether the task is a subscription: one that may be behind.
func (t Task) Subscribes() bool {
	_, is := t.Runner.(Subscriber)
	return is
}

// Kind is the kind of the task's runner, as exec; empty without one.
func (t Task) Kind() string {
	if t.Runner == nil {
		return ""
	}
	return t.Runner.Kind()
}

// Runner is the work of a task. It is a value that is never changed, and its methods may be called concurrently. What
// runs it is up to the replica: see package taskrun for those of the program.
type Runner interface {
	// Kind is the field of a task by which the runner is chosen, as exec: it names the kind in status and logs.
	Kind() string
	// NeedsRestart reports whether a run that was started as old, of the same kind, must start again to be this.
	NeedsRestart(old Runner) bool
}

// InProcess is a Runner whose work goes on in this process, where nothing but the end of the process can cut it off.
// What ends this process learns of it before it begins.
type InProcess interface {
	Runner
	// InProcess does nothing.
	InProcess()
}

// Subscriber is a Runner that delivers what arrives somewhere, and so may be behind.
type Subscriber interface {
	Runner
	// Subscribes does nothing.
	Subscribes()
}

// NeedsRestart reports whether a run of old must start again to become t: where its work, its ticks or what it was told
// of its task differ. Every other difference, such as labels, weight, stop and the restart policy, takes effect while
// the run goes on.
func (t Task) NeedsRestart(old Task) bool {
	was, is := old.Identity, t.Identity
	was.Labels, is.Labels = nil, nil
	return !reflect.DeepEqual(was, is) || old.Schedule != t.Schedule || old.Every != t.Every ||
		old.TimeZone != t.TimeZone || old.Kind() != t.Kind() ||
		t.Runner != nil && t.Runner.NeedsRestart(old.Runner)
}

// What a task's fields are when left out.
const (
	defaultWeight        = 1
	defaultStopSignal    = "SIGTERM"
	defaultStopTimeout   = 10 * time.Second
	defaultRestart       = RestartAlways
	defaultOverlap       = OverlapSkip
	defaultCatchUp       = CatchUpLast
	defaultCatchUpWindow = time.Hour
	defaultTimeZone      = "UTC"
	defaultRetryAttempts = 1
)

// WithDefaults returns t with its empty fields filled in; the runner is as it was.
func (t Task) WithDefaults() Task {
	t.Weight = cmp.Or(t.Weight, defaultWeight)
	t.Stop.Signal = cmp.Or(t.Stop.Signal, defaultStopSignal)
	t.Stop.Timeout = cmp.Or(t.Stop.Timeout, defaultStopTimeout)
	t.Restart = cmp.Or(t.Restart, defaultRestart)
	t.Backoff = t.Backoff.WithDefaults()
	t.Overlap = cmp.Or(t.Overlap, defaultOverlap)
	t.CatchUp = cmp.Or(t.CatchUp, defaultCatchUp)
	t.CatchUpWindow = cmp.Or(t.CatchUpWindow, defaultCatchUpWindow)
	t.TimeZone = cmp.Or(t.TimeZone, defaultTimeZone)
	t.Retry.Attempts = cmp.Or(t.Retry.Attempts, defaultRetryAttempts)
	t.Retry.Backoff = t.Retry.Backoff.WithDefaults()
	return t
}
