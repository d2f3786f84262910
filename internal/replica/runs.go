package replica

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/runs"
)

// Runs implements [status.RunSource]: it asks the store for those that are over. What goes on now is in the lock.
func (r *Replica) Runs(ctx context.Context, key string) ([]api.Run, error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list runs: %w", elect.ErrUnavailable)
	}
	m := gather(r.Settings(), n.cluster.View(), nil)
	return listRuns(ctx, n.store, m, elect.Key(key))
}

func listRuns(ctx context.Context, db store.Store, m material, key elect.Key) ([]api.Run, error) {
	past, err := runs.List(ctx, db, key)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	if now, ok := m.keys.running(key, m.declaredTask(key)); ok && len(past) >= record.MaxRuns {
		past = append([]record.Run{now}, past[:record.MaxRuns-1]...)
	} else if ok {
		past = append([]record.Run{now}, past...)
	}
	list := make([]api.Run, len(past))
	for i, run := range past {
		list[i] = api.Run{
			ScheduledAt: api.Millis(run.Tick), StartedAt: api.Millis(run.Start), EndedAt: api.Millis(run.End),
			Result: string(run.Result), ExitCode: run.ExitCode, Error: run.Error, Attempt: run.Attempt,
			Instance: run.Instance, FencingToken: run.Token, Output: run.Output,
		}
	}
	return list, nil
}

// running is the run that goes on now of a task that keeps its runs; nil is a task that is not declared.
func (k keys) running(key elect.Key, t *tasks.Task) (record.Run, bool) {
	lock := k.lock(key)
	owner, owned := k.live[lock.Session]
	if t == nil || !owned || !t.Ticks() && t.Restart == tasks.RestartAlways {
		return record.Run{}, false
	}
	switch lock.Status.State {
	case tasks.StateStarting, tasks.StateRunning, tasks.StateStopping:
	default:
		return record.Run{}, false
	}
	run := record.Run{Start: lock.Status.Since, Result: record.RunRunning, Instance: owner, Token: lock.Token}
	if t.Ticks() {
		run.Tick = cmp.Or(max(lock.Status.LastTick, lock.Status.LastTrigger), lock.Status.Since)
	}
	return run, true
}

// declaredTask is the task with that key; nil: none is declared.
func (m material) declaredTask(key elect.Key) *tasks.Task {
	for i := range m.settings.Groups {
		g := &m.settings.Groups[i]
		if g.Name != key.Group() {
			continue
		}
		if at := slices.IndexFunc(g.Tasks, func(t tasks.Task) bool { return t.Name == key.Name() }); at >= 0 {
			return &g.Tasks[at]
		}
	}
	return nil
}
