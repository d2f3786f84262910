package replica

import (
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Metrics counts what a replica does. Its methods may be called concurrently and must not block. A duration may be
// below zero where clocks of two machines are compared.
type Metrics interface {
	// DeclareGroup shows a group with nothing counted yet. Reasons are those of moves and releases, results those of
	// runs.
	DeclareGroup(group string, reasons, results []string)
	// ForgetGroup and ForgetTask drop what is no longer declared.
	ForgetGroup(group string)
	ForgetTask(group, task string)
	// SetOwned reports how many tasks of a group the replica owns, and the most that it may; below 0: no cap.
	SetOwned(group string, n, limit int)

	// Claim counts n claims that ended alike: won, lost or failed.
	Claim(group, result string, n int)
	Release(group, reason string)
	Move(group, reason string) // a key that came to this replica
	// ObserveFailover takes the time from the last heartbeat of a dead owner to running here, ObserveHandover that from
	// the end of the run elsewhere.
	ObserveFailover(group string, d time.Duration)
	ObserveHandover(group string, d time.Duration)
	TaskRestart(group, task string)
	// TaskRun takes how long a run took; below 0: nothing ran.
	TaskRun(group, task, result string, d time.Duration)

	// Heartbeat takes one that has just ended; err nil: it was acknowledged.
	Heartbeat(d time.Duration, err error)
	StoreOp(op, result string, d time.Duration)
	Reconcile(d time.Duration) // one comparison of plan and reality
	Lock(change electing.MutexChange)
}

// uncounted are the metrics of a replica without any.
type uncounted struct{}

func (uncounted) DeclareGroup(string, []string, []string)       {}
func (uncounted) ForgetGroup(string)                            {}
func (uncounted) ForgetTask(string, string)                     {}
func (uncounted) SetOwned(string, int, int)                     {}
func (uncounted) Claim(string, string, int)                     {}
func (uncounted) Release(string, string)                        {}
func (uncounted) Move(string, string)                           {}
func (uncounted) ObserveFailover(string, time.Duration)         {}
func (uncounted) ObserveHandover(string, time.Duration)         {}
func (uncounted) TaskRestart(string, string)                    {}
func (uncounted) TaskRun(string, string, string, time.Duration) {}
func (uncounted) Heartbeat(time.Duration, error)                {}
func (uncounted) StoreOp(string, string, time.Duration)         {}
func (uncounted) Reconcile(time.Duration)                       {}
func (uncounted) Lock(electing.MutexChange)                     {}

// hooks counts what the elector does, remembers how its last heartbeat went, and wakes those who watch events and who
// read lists. Locks that are no tasks' are not counted.
func hooks(m Metrics, h *heartbeats, events, lists *signal) electing.Hooks {
	return electing.Hooks{
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

// taskMetrics counts runs.
type taskMetrics struct{ m Metrics }

func (t taskMetrics) TaskRestart(key elect.Key) { t.m.TaskRestart(key.Group(), key.Name()) }

func (t taskMetrics) RunDone(key elect.Key, result taskrun.Result, took time.Duration) {
	if result == taskrun.ResultSkipped {
		took = -1 // nothing ran
	}
	t.m.TaskRun(key.Group(), key.Name(), string(result), took)
}
