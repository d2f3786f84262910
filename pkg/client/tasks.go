package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

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

// Runs reads the last runs of a task with ticks, or of one that runs once, the newest first. Output and errors are
// hidden from who may not see them.
func (t Tasks) Runs(ctx context.Context, group, name string) ([]api.Run, error) {
	list, err := one[api.List[api.Run]](ctx, t.c, taskPath(group, name)+"/runs")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Output is a part of what a task wrote.
type Output struct {
	Text string // whole lines
	// Position is up to where it goes. It is opaque, and [LogOptions].After of the next call.
	Position string
	// Instance is where it was written, and FencingToken that of the task's newest start there. Empty and 0: a replica
	// of an older version does not say.
	Instance     string
	FencingToken int64
	Ended        bool // the task is not held on that instance any more
}

// LogOptions select from what a task wrote.
type LogOptions = api.LogOptions

// Logs reads what a task wrote since its owner has it. The owner is asked for it, through the replica that answers.
// While no one owns the task, what it wrote last may still be kept: [Output].Ended says so.
func (t Tasks) Logs(ctx context.Context, group, name string, o LogOptions) (*Output, error) {
	ctx, answered := t.c.limit(ctx)
	defer answered()
	resp, err := t.c.read(ctx, taskPath(group, name)+"/logs", o.Values(), "text/plain", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read output of %s/%s: %w", group, name, cause(ctx, err))
	}
	h := resp.Header
	token, _ := strconv.ParseInt(h.Get(api.LogTokenHeader), 10, 64) // absent: 0
	return &Output{
		Text: string(text), Position: h.Get(api.LogPositionHeader), Instance: h.Get(api.LogInstanceHeader),
		FencingToken: token, Ended: h.Get(api.LogEndedHeader) != "",
	}, nil
}
