package tasks

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Timing says when a task is fired and what holds for its runs at ticks. The zero value is a task without ticks.
type Timing struct {
	Schedule      string        // cron expression, five fields or a descriptor; empty: none
	Every         time.Duration // 0: none
	TimeZone      string        // of Schedule; empty: UTC
	Overlap       Overlap       // default skip
	CatchUp       CatchUp       // default last
	CatchUpWindow time.Duration // default 1 h
	Timeout       time.Duration // of one run at a tick; 0: none
	Retry         Retry         // of one run at a tick
}

// Ticks says whether the task is fired by a schedule.
func (t Timing) Ticks() bool { return t.Schedule != "" || t.Every > 0 }

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
	Initial    time.Duration // default 1 s
	Max        time.Duration // default 5 min
	ResetAfter time.Duration // default 10 min
}

// What the fields of a Backoff are when left out.
const (
	defaultBackoffFirst = time.Second
	defaultBackoffMax   = 5 * time.Minute
	defaultBackoffReset = 10 * time.Minute
)

// WithDefaults returns b with its empty fields filled in.
func (b Backoff) WithDefaults() Backoff {
	return Backoff{
		Initial:    cmp.Or(b.Initial, defaultBackoffFirst),
		Max:        cmp.Or(b.Max, defaultBackoffMax),
		ResetAfter: cmp.Or(b.ResetAfter, defaultBackoffReset),
	}
}

// Delay is how long to wait after the given number of failures in a row (from 0). It is anything up to Initial doubled
// so many times, at most Max. It is drawn evenly from the whole range ("full jitter"), since tasks that failed together
// would otherwise come back together: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
func (b Backoff) Delay(failures int) time.Duration {
	ceiling := b.ceiling(failures)
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling) + 1 //nolint:gosec // G404: it spreads load, nothing is to be kept secret
}

func (b Backoff) ceiling(failures int) time.Duration {
	ceiling := min(b.Initial, b.Max)
	for range failures {
		if ceiling >= b.Max-ceiling { // doubled it would pass Max, or overflow
			return b.Max
		}
		ceiling *= 2
	}
	return ceiling
}

// Retry says how often one run at a tick is tried.
type Retry struct {
	Attempts int // in all, at least 1; default 1
	Backoff  Backoff
}

// Stop says how a command is asked to end: Signal to its whole process group, SIGKILL after Timeout.
type Stop struct {
	Signal  string        // SIGTERM (the default), SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGKILL
	Timeout time.Duration // default 10 s
}
