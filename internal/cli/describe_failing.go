package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// maxDescribed is how many tasks one call describes; it asks the replica three times for each.
const maxDescribed = 10

// failingFacts are what is known of the tasks with anything wrong, those first whose state changed last.
type failingFacts struct {
	Tasks []*taskFacts `json:"tasks"` // at most maxDescribed
	More  int          `json:"more"`  // how many there are beyond these
}

// anythingWrong says whether the task does not run as it should, or failed when it last ran.
func anythingWrong(t *api.Task) bool {
	return t.State == api.Unassigned || t.State == api.Backoff || t.State == api.Failed || t.LastError != ""
}

// failing reads what is known of the tasks with anything wrong, in the group that was named or in all.
func (r *reader) failing(ctx context.Context) (facts, error) {
	tasks, err := r.client.Tasks().List(ctx, client.Filter{Group: r.group})
	if err != nil {
		return nil, err
	}
	tasks = slices.DeleteFunc(tasks, func(t api.Task) bool { return !anythingWrong(&t) })
	slices.SortStableFunc(tasks, func(a, b api.Task) int { return b.StateSince.Compare(a.StateSince.Time) })
	f := &failingFacts{Tasks: []*taskFacts{}, More: max(0, len(tasks)-maxDescribed)}
	for i := range tasks[:min(len(tasks), maxDescribed)] {
		one, err := (&reader{client: r.client}).ofTask(ctx, tasks[i].Key)
		if err != nil {
			return nil, err
		}
		f.Tasks = append(f.Tasks, one)
	}
	return f, nil
}

func (f *failingFacts) show(d *description) {
	if len(f.Tasks) == 0 {
		d.line("No task is unassigned, failed or in backoff, and none failed when it last ran.")
	}
	for i, t := range f.Tasks {
		if i > 0 {
			d.line("")
			d.line("---")
		}
		t.show(d)
	}
	if f.More > 0 {
		d.line("")
		d.line(fmt.Sprintf("and %d more; `shardctl get tasks --sort-by .state` lists all", f.More))
	}
}
