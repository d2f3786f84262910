package tasks

import (
	"cmp"
	"reflect"
	"time"
)

// What a task's fields are when left out.
const (
	DefaultWeight        = 1
	DefaultStopSignal    = "SIGTERM"
	DefaultStopTimeout   = 10 * time.Second
	DefaultRestart       = RestartAlways
	DefaultBackoffFirst  = time.Second
	DefaultBackoffMax    = 5 * time.Minute
	DefaultBackoffReset  = 10 * time.Minute
	DefaultOverlap       = OverlapSkip
	DefaultCatchUp       = CatchUpLast
	DefaultCatchUpWindow = time.Hour
	DefaultTimeZone      = "UTC"
	DefaultRetryAttempts = 1
)

// WithDefaults returns t with its empty fields filled in; the runner is as it was.
func (t Task) WithDefaults() Task {
	t.Weight = cmp.Or(t.Weight, DefaultWeight)
	t.Stop.Signal = cmp.Or(t.Stop.Signal, DefaultStopSignal)
	t.Stop.Timeout = cmp.Or(t.Stop.Timeout, DefaultStopTimeout)
	t.Restart = cmp.Or(t.Restart, DefaultRestart)
	t.Backoff = t.Backoff.withDefaults()
	t.Overlap = cmp.Or(t.Overlap, DefaultOverlap)
	t.CatchUp = cmp.Or(t.CatchUp, DefaultCatchUp)
	t.CatchUpWindow = cmp.Or(t.CatchUpWindow, DefaultCatchUpWindow)
	t.TimeZone = cmp.Or(t.TimeZone, DefaultTimeZone)
	t.Retry.Attempts = cmp.Or(t.Retry.Attempts, DefaultRetryAttempts)
	t.Retry.Backoff = t.Retry.Backoff.withDefaults()
	return t
}

// complete returns t itself when all its fields are filled in, as those of a configuration are, else a copy: tasks
// are many.
func (t *Task) complete() *Task {
	all := t.WithDefaults()
	was, is := *t, all
	was.Labels, was.Runner, is.Labels, is.Runner = nil, nil, nil, nil // they have no defaults
	if reflect.DeepEqual(was, is) {
		return t
	}
	return &all
}

func (b Backoff) withDefaults() Backoff {
	return Backoff{
		Initial:    cmp.Or(b.Initial, DefaultBackoffFirst),
		Max:        cmp.Or(b.Max, DefaultBackoffMax),
		ResetAfter: cmp.Or(b.ResetAfter, DefaultBackoffReset),
	}
}
