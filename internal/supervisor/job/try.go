package job

import (
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// try is a start, and what became of those before it since the task began.
type try struct {
	start    tasks.Start // of the run that goes on, or was tried last
	before   fired       // what was fired before the start
	failures int         // in a row, of starts without ticks
	refused  int         // in a row, of writes of the lock before a start
	retryAt  time.Time   // when it is tried again after a pause, by the steady clock
	ran      bool        // something was run: the runner may have to take leave
}

// returned takes that a run has ended which took so long, and returns how many did in a row. One that took at least
// resetAfter begins a new row.
func (t *try) returned(took, resetAfter time.Duration) int {
	if took >= resetAfter {
		t.failures = 0
	}
	t.failures++
	return t.failures
}

// loopingAfter is from how many failures in a row on a task counts as looping.
const loopingAfter = 3

// isReported reports whether so many failures in a row are reported: 3, 6, 12, and so on.
func isReported(failures int) bool {
	if failures%loopingAfter != 0 {
		return false
	}
	n := failures / loopingAfter
	return n > 0 && n&(n-1) == 0
}

// endsForGood reports whether what has ended stays ended, at so many failures in a row.
func endsForGood(t *tasks.Task, end tasks.Ending, failures int) bool {
	switch {
	case end.Final, end.ByItself && t.Restart == tasks.RestartNever,
		end.ByItself && t.Restart == tasks.RestartOnFailure && end.Err == nil:
		return true
	default:
		return t.MaxRestarts > 0 && failures > t.MaxRestarts
	}
}
