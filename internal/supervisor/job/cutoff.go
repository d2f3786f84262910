package job

import (
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// KeepsRuns reports whether single runs of the task are of interest.
func KeepsRuns(t *tasks.Task) bool { return t.Ticks() || t.Restart != tasks.RestartAlways }

// CutOff is the run that a task was in when its owner's last word of it was written: it has come to no end there.
// What was stopped in order is among these; who keeps runs knows it already.
func CutOff(t *tasks.Task, s elect.TaskStatus) (taskrun.PastRun, bool) {
	switch s.State {
	case record.StateStarting, record.StateRunning, record.StateStopping:
	default:
		return taskrun.PastRun{}, false
	}
	run := taskrun.PastRun{
		Began: time.UnixMilli(s.Since).UTC(), Result: taskrun.ResultStopped, Start: tasks.Start{ScheduledAt: tickOf(t, s)},
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
