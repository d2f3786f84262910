package replica

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// errChanged ends a run whose task was declared anew with other fields: it starts again as it is now.
var errChanged = errors.New("the task has changed")

// runBook knows the tasks as declared now, and which of them run.
type runBook struct {
	mu     sync.Mutex
	tasks  map[elect.Key]*tasks.Task // of the settings, which nobody changes
	active map[elect.Key]context.CancelCauseFunc
}

// set takes new lists, ends the runs of tasks that have changed, and returns those that are declared no more.
func (b *runBook) set(s *config.Settings) (gone []elect.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[elect.Key]*tasks.Task, s.Tasks())
	for _, g := range s.Groups {
		for i := range g.Tasks {
			next[g.Tasks[i].Key()] = &g.Tasks[i]
		}
	}
	for key, cancel := range b.active {
		if t, ok := next[key]; ok && !reflect.DeepEqual(t, b.tasks[key]) {
			cancel(errChanged)
		}
	}
	for key := range b.tasks {
		if _, ok := next[key]; !ok {
			gone = append(gone, key)
		}
	}
	b.tasks = next
	return gone
}

// begin notes that a run of the key begins, and returns the task as declared now and the run's context.
func (b *runBook) begin(ctx context.Context, key elect.Key) (context.Context, tasks.Task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tasks[key]
	if !ok {
		return ctx, tasks.Task{}, fmt.Errorf("task %s is not declared", key)
	}
	if b.active == nil {
		b.active = map[elect.Key]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b.active[key] = cancel
	return ctx, *t, nil
}

func (b *runBook) end(key elect.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cancel := b.active[key]; cancel != nil {
		cancel(nil)
		delete(b.active, key)
	}
}

// run is the work of a key: its task under the supervisor, again as often as its declaration changes.
func (r *Replica) run(key elect.Key) elect.Runnable {
	return elect.Go(func(ctx context.Context, lease *elect.Lease) error {
		for {
			err := r.runOnce(ctx, key, lease)
			if errors.Is(err, tasks.ErrDone) {
				lease.Park()
				return err
			}
			if ctx.Err() != nil || !errors.Is(err, errChanged) {
				return err
			}
			if _, err := lease.Advance(ctx, lease.Status()); err != nil {
				return err
			}
		}
	})
}

func (r *Replica) runOnce(ctx context.Context, key elect.Key, lease *elect.Lease) error {
	ctx, task, err := r.runs.begin(ctx, key)
	if err != nil {
		return err
	}
	defer r.runs.end(key)
	return r.tasks.Run(ctx, task, lease)
}
