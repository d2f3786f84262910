package replica

import (
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// taskMetrics counts runs.
type taskMetrics struct{ m *status.Metrics }

func (t taskMetrics) TaskRestart(key elect.Key) { t.m.TaskRestart(key.Group(), key.Name()) }

func (t taskMetrics) RunDone(key elect.Key, result tasks.Result, took time.Duration) {
	if result == tasks.ResultSkipped {
		took = -1 // nothing ran
	}
	t.m.TaskRun(key.Group(), key.Name(), string(result), took)
}

// Tracer makes spans of what happens to keys, and of the runs of tasks.
type Tracer interface {
	tasks.Tracer
	Key(change elect.KeyChange)
}

// hooks counts what the elector does, remembers how its last heartbeat went, and wakes those who watch events and who
// read lists. Locks that are no tasks' are not counted.
func hooks(m *status.Metrics, h *heartbeats, events, lists *signal) elect.Hooks {
	return elect.Hooks{
		Heartbeat: func(took time.Duration, err error) {
			m.Heartbeat(took, err)
			h.note(took, err)
		},
		StoreOp:  m.StoreOp,
		Claim:    ofTasks(func(group, result string) { m.Claim(group, result, 1) }),
		Release:  ofTasks(func(group string, reason elect.Reason) { m.Release(group, string(reason)) }),
		Move:     ofTasks(func(group string, reason elect.Reason) { m.Move(group, string(reason)) }),
		Failover: ofTasks(m.ObserveFailover),
		Handover: ofTasks(m.ObserveHandover),

		Mutex:  m.Lock,
		Events: events.wake, Lists: lists.wake,
	}
}

// ofTasks leaves the groups of chores out.
func ofTasks[T any](count func(string, T)) func(string, T) {
	return func(group string, what T) {
		if !elect.Key(group).Chore() {
			count(group, what)
		}
	}
}
