package tasks

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/elect"
)

// The states of an owned task, as in [elect.TaskStatus.State].
const (
	StateWaiting  = "waiting" // between ticks
	StateStarting = "starting"
	StateRunning  = "running"
	StateStopping = "stopping"
	StateBackoff  = "backoff"
	StateDone     = "done"
	StateFailed   = "failed"
)

// set changes the status. Since is by the local clock; for display only.
func (j *job) set(state string, now moment, change ...func(*elect.TaskStatus)) {
	if j.status.State != state {
		j.status.State, j.status.Since = state, now.wall.UnixMilli()
	}
	if !j.task.Ticks() {
		j.status.NextRunAt = 0
	}
	for _, c := range change {
		c(&j.status)
	}
	j.status.Settled = j.settled()
}

// settled says whether the work should not be moved for balance now: it could not be picked up where it stopped.
func (j *job) settled() bool {
	switch j.status.State {
	case StateStarting, StateRunning, StateStopping:
		return j.task.Ticks() || j.task.Restart != RestartAlways
	case StateBackoff:
		return j.task.Ticks() // a tick between two tries
	default:
		return false
	}
}

// lastError puts err into the status, cut to what a lock may hold: it is for display, the log has all of it.
func lastError(err error) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) { s.LastError = display(err) }
}

func nextRunAt(at time.Time) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) {
		s.NextRunAt = 0
		if !at.IsZero() {
			s.NextRunAt = at.UnixMilli()
		}
	}
}

// display is an error as valid text of at most elect.MaxText bytes.
func display(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) <= elect.MaxText {
		return text
	}
	const more = "…"
	end := elect.MaxText - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
