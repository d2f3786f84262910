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

// errChanged ends a run whose task is declared with other fields now: it starts again as it is declared.
var errChanged = errors.New("the task has changed")

// runs knows the tasks as declared now, and which of them run. The zero value is ready.
type runs struct {
	mu     sync.Mutex
	tasks  map[elect.Key]*tasks.Task // of the settings, which nobody changes
	active map[elect.Key]context.CancelCauseFunc
}

// set takes new lists and returns the tasks that are no longer declared. Runs of tasks that have changed get their new fields by update; they
// end, and begin again, where that says that it is not enough.
func (r *runs) set(s *config.Settings, update func(tasks.Task) bool) (gone []elect.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[elect.Key]*tasks.Task, s.Tasks())
	for _, g := range s.Groups {
		for i := range g.Tasks {
			next[g.Tasks[i].Key()] = &g.Tasks[i]
		}
	}
	for key, cancel := range r.active {
		if t, ok := next[key]; ok && !reflect.DeepEqual(t, r.tasks[key]) && (update == nil || !update(*t)) {
			cancel(errChanged)
		}
	}
	for key := range r.tasks {
		if _, ok := next[key]; !ok {
			gone = append(gone, key)
		}
	}
	r.tasks = next
	return gone
}

// begin notes that a run of the key begins, and returns the task as declared now and the run's context.
func (r *runs) begin(ctx context.Context, key elect.Key) (context.Context, tasks.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.tasks[key]
	if !ok {
		return ctx, tasks.Task{}, fmt.Errorf("task %s is not declared", key)
	}
	if r.active == nil {
		r.active = map[elect.Key]context.CancelCauseFunc{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.active[key] = cancel
	return ctx, *t, nil
}

func (r *runs) end(key elect.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.active[key]; cancel != nil {
		cancel(nil)
		delete(r.active, key)
	}
}
