package job

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// setState changes the status of t to a state. Since is by the local clock; for display only.
func setState(s *elect.TaskStatus, t *tasks.Task, state string, at time.Time, change ...func(*elect.TaskStatus)) {
	if s.State != state {
		s.State, s.Since = state, at.UnixMilli()
	}
	if state != record.StateRunning {
		s.TroubleSince = 0
	}
	if !t.Ticks() {
		s.NextRunAt = 0
	}
	for _, c := range change {
		c(s)
	}
	s.Settled = settled(t, s.State)
}

// settled says whether work in that state should not be moved for balance: it could not be picked up where it stopped.
func settled(t *tasks.Task, state string) bool {
	switch state {
	case record.StateStarting, record.StateRunning, record.StateStopping:
		return t.Ticks() || t.Restart != tasks.RestartAlways
	case record.StateBackoff:
		return t.Ticks() // a tick between two tries
	default:
		return false
	}
}

// lastError puts err into the status, cut to what a lock may hold: it is for display, the log has all of it.
func lastError(err error) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) { s.LastError = display(err) }
}

// Trouble notes what is wrong with a run that goes on, and since when.
func Trouble(err error, at time.Time) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) {
		switch s.LastError = display(err); {
		case err == nil:
			s.TroubleSince = 0
		case s.TroubleSince == 0:
			s.TroubleSince = at.UnixMilli()
		}
	}
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

// KeepsRuns says whether single runs of the task are of interest.
func KeepsRuns(t *tasks.Task) bool { return t.Ticks() || t.Restart != tasks.RestartAlways }

// CutOff is the run that a task was in when its owner's last word of it was written: it has come to no end there.
// What was stopped in order is among these; who keeps runs knows it already.
func CutOff(t *tasks.Task, s elect.TaskStatus) (tasks.PastRun, bool) {
	switch s.State {
	case record.StateStarting, record.StateRunning, record.StateStopping:
	default:
		return tasks.PastRun{}, false
	}
	run := tasks.PastRun{
		Began: time.UnixMilli(s.Since).UTC(), Result: tasks.ResultStopped, Start: tasks.Start{ScheduledAt: tickOf(t, s)},
	}
	return run, KeepsRuns(t) && s.Since > 0
}

// tickOf is the tick that a status is of; zero for a task without ticks.
func tickOf(t *tasks.Task, s elect.TaskStatus) time.Time {
	at := max(s.LastTick, s.LastTrigger)
	if !t.Ticks() || at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}
