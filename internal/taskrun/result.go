package taskrun

import (
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// ErrDone says that a task has ended for good, done or failed: its outcome is in the lock, and the key is to be
// suspended.
var ErrDone = errors.New("task has ended for good")

// Result is how a run ended, as in the label of the metric.
type Result string

// The results of runs.
const (
	ResultSucceeded Result = "succeeded"
	ResultFailed    Result = "failed"
	ResultTimeout   Result = "timeout"  // a tick's run passed Task.Timeout
	ResultReplaced  Result = "replaced" // the next tick took its place
	ResultStopped   Result = "stopped"  // the key was released or lost
	ResultSkipped   Result = "skipped"  // the tick found the run before it still going
)

// PastRun is one run that is over.
type PastRun struct {
	Start  tasks.Start // without a token where another replica began it
	Began  time.Time   // by the wall clock, as Ended
	Ended  time.Time   // zero: not known, it was cut off by the end of its replica
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

// Asked is what operators ask of a task. Each request names the fencing token that the task's key had when it was made.
// One with an older token than the last start has been obeyed, or something newer has happened since. Zero: nothing.
type Asked struct {
	// Restart ends a run under this token, and starts another.
	Restart int64
	// Rerun makes an outcome under this token, or an older one, be forgotten.
	Rerun int64
	// Trigger asks for one tick more, at this moment in Unix ms, of a task with ticks. Each is fired once.
	Trigger int64
	// Resumed is when a pause ended last, Unix ms: ticks up to then do not count.
	Resumed int64
}
