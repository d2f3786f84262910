package replica

import (
	"context"
	"errors"
	"testing"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
)

// Only what the work is made of ends it: labels, weight and backoff do not, not even of a job that may run once.
func TestEditedTaskIsCutOffOnlyWhereItsWorkChanges(t *testing.T) {
	job := tasks.Task{Group: "g", Name: "job", Runner: callback.Runner("work"), Restart: tasks.RestartNever, Weight: 1}
	var updated []tasks.Task
	update := func(next tasks.Task) bool {
		updated = append(updated, next)
		return !tasks.NeedsRestart(job, next)
	}
	set := func(b *runs, task tasks.Task) {
		b.set(&config.Settings{Groups: []config.Group{{Name: "g", Tasks: []tasks.Task{task}}}}, update)
	}
	var b runs
	set(&b, job)
	ctx, _, err := b.begin(t.Context(), elect.NewKey("g", "job"))
	if err != nil {
		t.Fatal(err)
	}
	edited := job
	edited.Labels, edited.Weight, edited.Backoff.Initial = map[string]string{"team": "core"}, 3, 5
	set(&b, edited)
	if ctx.Err() != nil {
		t.Errorf("labels, weight and backoff ended the run: %v", context.Cause(ctx))
	}
	if len(updated) != 1 || updated[0].Weight != 3 {
		t.Errorf("updated with %+v", updated)
	}
	edited.Runner = callback.Runner("other")
	set(&b, edited)
	if !errors.Is(context.Cause(ctx), errChanged) {
		t.Errorf("another callback did not end the run: %v", context.Cause(ctx))
	}
}
