package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Journal takes what has happened to tasks, for people. Calls must not block.
type Journal interface {
	// Ran takes a run that is over, or a tick that was skipped. The task has ticks, or may end for good.
	Ran(key elect.Key, run PastRun)
	// Missed takes a tick that is not run, since it came so late.
	Missed(key elect.Key, tick time.Time, late time.Duration)
	// Looping takes that a task without ticks ends again and again. It is called at the third failure in a row, and
	// then each time that their number has doubled.
	Looping(key elect.Key, loop CrashLoop)
	// Failed takes that a task has failed for good.
	Failed(key elect.Key, why error)
}

// PastRun is one run that is over.
type PastRun struct {
	Start  Start     // without a token where another replica began it
	Began  time.Time // by the wall clock, as Ended
	Ended  time.Time // zero: not known, it was cut off by the end of its replica
	Result Result
	Code   int   // exit status; of what has none, 0 or 1
	Err    error // nil: it did not fail
	Again  bool  // it is tried again
}

// CrashLoop says that a task ends again and again.
type CrashLoop struct {
	Failures int // in a row
	Err      error
	Next     time.Time // of the next try, by the wall clock
}

// loopingAfter is from how many failures in a row on a task counts as looping.
const loopingAfter = 3

// telling says whether so many failures in a row are news: 3, 6, 12, and so on.
func telling(failures int) bool {
	if failures%loopingAfter != 0 {
		return false
	}
	n := failures / loopingAfter
	return n > 0 && n&(n-1) == 0
}

// keepsRuns says whether single runs of the task are of interest.
func (t *Task) keepsRuns() bool { return t.Ticks() || t.Restart != RestartAlways }

// cutOff is the run that a task was in when its owner's last word of it was written: it has come to no end there.
// What was stopped in order is among these; who keeps runs knows it already.
func cutOff(t *Task, s elect.TaskStatus) (PastRun, bool) {
	switch s.State {
	case StateStarting, StateRunning, StateStopping:
	default:
		return PastRun{}, false
	}
	run := PastRun{Began: time.UnixMilli(s.Since).UTC(), Result: ResultStopped, Start: Start{ScheduledAt: tickOf(t, s)}}
	return run, t.keepsRuns() && s.Since > 0
}

// tickOf is the tick that a status is of; zero for a task without ticks.
func tickOf(t *Task, s elect.TaskStatus) time.Time {
	at := max(s.LastTick, s.LastTrigger)
	if !t.Ticks() || at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

type noJournal struct{}

func (noJournal) Ran(elect.Key, PastRun)                     {}
func (noJournal) Missed(elect.Key, time.Time, time.Duration) {}
func (noJournal) Looping(elect.Key, CrashLoop)               {}
func (noJournal) Failed(elect.Key, error)                    {}
