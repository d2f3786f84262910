package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/runs"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Events lists events of the store. Malformed ones, by a change out of band, are left out and do not count.
func Events(ctx context.Context, db store.Store, q snapshot.EventQuery) ([]api.Event, error) {
	if !q.Since.IsZero() {
		q.From = max(q.From, fmt.Sprintf("%013d", q.Since.UnixMilli()))
	}
	events := []api.Event{}
	for {
		left := q.Limit - len(events)
		res, err := db.List(ctx, driver.KindEvent, driver.Query{
			Group: q.Group, From: q.From, To: q.To, Limit: left, Reverse: !q.OldestFirst,
		})
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for _, d := range res.Docs {
			if e, err := record.EventFrom(d); err == nil {
				events = append(events, shownEvent(&e))
			}
		}
		if len(res.Docs) < left || len(events) == q.Limit {
			return events, nil
		}
		if last := res.Docs[len(res.Docs)-1].ID; q.OldestFirst {
			q.From = last + "\x00"
		} else {
			q.To = last
		}
	}
}

func shownEvent(e *record.Event) api.Event {
	return api.Event{
		ID: e.ID, Time: api.Millis(e.Time), Type: e.Type, Reason: string(e.Reason), Key: string(e.Key),
		From: e.From, To: e.To, FencingToken: e.Token, By: e.By, Message: e.Message,
	}
}

// Runs lists the last runs of a task, the newest first. The store has those that are over, and the lock what runs now.
func Runs(
	ctx context.Context, db store.Store, s *settings.Settings, view *cluster.View, key record.Key,
) ([]api.Run, error) {
	past, err := runs.List(ctx, db, key)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	ix := newTaskIndex(&Input{Settings: s, Cluster: view}, overrideIndex{})
	if now, ok := ix.running(key, declaredTask(s, key)); ok && len(past) >= record.MaxRuns {
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

// running is the run that goes on now of a task that keeps its runs. t is nil where the task is not declared.
func (ix taskIndex) running(key record.Key, t *tasks.Task) (record.Run, bool) {
	lock := ix.lock(key)
	owner, owned := ix.owner(&lock)
	if t == nil || !owned || !t.Ticks() && t.Restart == tasks.RestartAlways {
		return record.Run{}, false
	}
	switch lock.Status.State {
	case record.StateStarting, record.StateRunning, record.StateStopping:
	default:
		return record.Run{}, false
	}
	run := record.Run{Start: lock.Status.Since, Result: record.RunRunning, Instance: owner.Instance, Token: lock.Token}
	if t.Ticks() {
		run.Tick = cmp.Or(max(lock.Status.LastTick, lock.Status.LastTrigger), lock.Status.Since)
	}
	return run, true
}

// declaredTask is the task with that key; nil: none is declared.
func declaredTask(s *settings.Settings, key record.Key) *tasks.Task {
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Name != key.Group() {
			continue
		}
		if at := slices.IndexFunc(g.Tasks, func(t tasks.Task) bool { return t.Name == key.Name() }); at >= 0 {
			return &g.Tasks[at]
		}
	}
	return nil
}
