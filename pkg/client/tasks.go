package client

import (
	"context"
	"net/url"

	"github.com/shardctl/shardctl/pkg/api"
)

// Tasks reads, watches and changes tasks. [Client.Tasks] makes it.
type Tasks struct{ c *Client }

const tasksPath = "/api/v1/tasks"

func taskPath(group, name string) string {
	return tasksPath + "/" + url.PathEscape(group) + "/" + url.PathEscape(name)
}

// List reads all tasks that the filter selects, by key. It may hold all but Task and Since.
func (t Tasks) List(ctx context.Context, f Filter) ([]api.Task, error) {
	return all[api.Task](ctx, t.c, tasksPath, f)
}

// Get reads one task. One that is not declared is [ErrNotFound].
func (t Tasks) Get(ctx context.Context, group, name string) (*api.Task, error) {
	return one[api.Task](ctx, t.c, taskPath(group, name))
}

// Watch watches the tasks that the filter selects, as [Client.WatchStatus] does. A task that the filter does not
// select any more is sent as deleted.
func (t Tasks) Watch(ctx context.Context, o WatchOptions, handle func(Change[api.Task]) error) error {
	return watchItems(ctx, t.c, tasksPath, o, handle)
}

// Pause stops tasks, and runs them nowhere until [Tasks.Resume].
func (t Tasks) Pause(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Pause, s, o.request())
}

// Resume lets paused tasks run again. Those of a group that is paused as a whole need [Groups.Resume].
func (t Tasks) Resume(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Resume, s, o.request())
}

// Restart ends what runs of tasks, as a stop would, and starts it again on the same instance with a new fencing token.
func (t Tasks) Restart(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Restart, s, o.request())
}

// Rerun runs tasks again that are done or have failed for good.
func (t Tasks) Rerun(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Rerun, s, o.request())
}

// Trigger fires one tick now, of tasks with schedule or every.
func (t Tasks) Trigger(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Trigger, s, o.request())
}

// Pin keeps tasks on an instance, a pattern of instances (web-*) or a zone (zone=eu-1). Unless strict it is a
// preference: where none of them lives or has capacity, the tasks run elsewhere.
func (t Tasks) Pin(
	ctx context.Context, s Selection, instance string, strict bool, o ChangeOptions,
) (*api.ChangeResult, error) {
	r := o.request()
	r.Instance, r.Strict = instance, strict
	return t.Change(ctx, api.Pin, s, r)
}

// Unpin lets pinned tasks go where the plan puts them.
func (t Tasks) Unpin(ctx context.Context, s Selection, o ChangeOptions) (*api.ChangeResult, error) {
	return t.Change(ctx, api.Unpin, s, o.request())
}

// Move hands tasks over to an instance, once. The balancer may move them again later.
func (t Tasks) Move(ctx context.Context, s Selection, instance string, o ChangeOptions) (*api.ChangeResult, error) {
	r := o.request()
	r.Instance = instance
	return t.Change(ctx, api.Move, s, r)
}

// Change asks for a change of the tasks that are selected; r.Group, Tasks and Selector are those of the selection.
// The result says what became of each. Where some are refused there is a result and a [*RefusedError] too.
func (t Tasks) Change(
	ctx context.Context, verb api.Verb, s Selection, r api.ChangeRequest,
) (*api.ChangeResult, error) {
	r.Group, r.Tasks, r.Selector = s.Group, s.Tasks, s.Selector
	var result api.ChangeResult
	if _, err := t.c.post(ctx, tasksPath+"/"+url.PathEscape(string(verb)), withID(r), &result); err != nil {
		return nil, err
	}
	return refusals(&result)
}
