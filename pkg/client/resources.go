package client

import (
	"context"
	"net/url"

	"github.com/shardctl/shardctl/pkg/api"
)

// Groups reads, watches and changes groups of tasks. [Client.Groups] makes it.
type Groups struct{ c *Client }

const groupsPath = "/api/v1/groups"

// List reads all groups that the filter selects, by name. It may hold Group and Q.
func (g Groups) List(ctx context.Context, f Filter) ([]api.Group, error) {
	return all[api.Group](ctx, g.c, groupsPath, f)
}

// Get reads one group. One that is not declared is [ErrNotFound].
func (g Groups) Get(ctx context.Context, name string) (*api.Group, error) {
	return one[api.Group](ctx, g.c, groupsPath+"/"+url.PathEscape(name))
}

// Watch watches the groups that the filter selects, as [Client.WatchStatus] does.
func (g Groups) Watch(ctx context.Context, o WatchOptions, handle func(Change[api.Group]) error) error {
	return watchItems(ctx, g.c, groupsPath, o, handle)
}

// Pause pauses a group as a whole, tasks that are declared later included.
func (g Groups) Pause(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return g.Change(ctx, api.Pause, name, o.request())
}

// Resume lets a group run again that is paused as a whole.
func (g Groups) Resume(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return g.Change(ctx, api.Resume, name, o.request())
}

// Rebalance spreads the tasks of a group evenly now, without waiting for membership to settle.
func (g Groups) Rebalance(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return g.Change(ctx, api.Rebalance, name, o.request())
}

// Change asks for a change of a group as a whole. A refusal is an [*api.Error].
func (g Groups) Change(
	ctx context.Context, verb api.Verb, name string, r api.ChangeRequest,
) (*api.ChangeResult, error) {
	return g.c.changeOne(ctx, groupsPath, verb, name, r)
}

// Instances reads, watches and changes instances. [Client.Instances] makes it.
type Instances struct{ c *Client }

const instancesPath = "/api/v1/instances"

// List reads all instances that the filter selects, by name. Those that left in order come only when their state or
// their name is asked for.
func (i Instances) List(ctx context.Context, f Filter) ([]api.Instance, error) {
	return all[api.Instance](ctx, i.c, instancesPath, f)
}

// Get reads one instance. One that is not known, or not any more, is [ErrNotFound].
func (i Instances) Get(ctx context.Context, name string) (*api.Instance, error) {
	return one[api.Instance](ctx, i.c, instancesPath+"/"+url.PathEscape(name))
}

// Watch watches the instances that the filter selects, as [Client.WatchStatus] does.
func (i Instances) Watch(ctx context.Context, o WatchOptions, handle func(Change[api.Instance]) error) error {
	return watchItems(ctx, i.c, instancesPath, o, handle)
}

// Drain has an instance hand over all its tasks, and take none until [Instances.Undrain], also after a restart. It
// returns when that is asked for: [Instances.Get] shows in Owned how many tasks are left.
func (i Instances) Drain(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return i.Change(ctx, api.Drain, name, o.request())
}

// Undrain lets a drained instance take tasks again.
func (i Instances) Undrain(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return i.Change(ctx, api.Undrain, name, o.request())
}

// Cordon lets an instance take no new tasks, and keep what it has, until [Instances.Uncordon].
func (i Instances) Cordon(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return i.Change(ctx, api.Cordon, name, o.request())
}

// Uncordon lets a cordoned instance take new tasks again.
func (i Instances) Uncordon(ctx context.Context, name string, o ChangeOptions) (*api.ChangeResult, error) {
	return i.Change(ctx, api.Uncordon, name, o.request())
}

// Change asks for a change of an instance. A refusal is an [*api.Error].
func (i Instances) Change(
	ctx context.Context, verb api.Verb, name string, r api.ChangeRequest,
) (*api.ChangeResult, error) {
	return i.c.changeOne(ctx, instancesPath, verb, name, r)
}

// Locks reads and watches who owns which key, and who holds locks of programs and waits for them. [Client.Locks] makes
// it.
type Locks struct{ c *Client }

const locksPath = "/api/v1/locks"

// List reads all locks that the filter selects, by key. It may hold Group, Instance, Kind and Q.
func (l Locks) List(ctx context.Context, f Filter) ([]api.Lock, error) {
	return all[api.Lock](ctx, l.c, locksPath, f)
}

// Watch watches the locks that the filter selects, as [Client.WatchStatus] does.
func (l Locks) Watch(ctx context.Context, o WatchOptions, handle func(Change[api.Lock]) error) error {
	return watchItems(ctx, l.c, locksPath, o, handle)
}

// Owners reads and watches who owns which key, and where requests for it go. [Client.Owners] makes it, and a [Router]
// follows it.
type Owners struct{ c *Client }

const ownersPath = "/api/v1/owners"

// List reads the owners that the filter selects, by key. It may hold Group, Instance, For and Q.
func (o Owners) List(ctx context.Context, f Filter) ([]api.KeyOwner, error) {
	return all[api.KeyOwner](ctx, o.c, ownersPath, f)
}

// Watch watches the owners that the filter selects, as [Client.WatchStatus] does. A key that loses its owner is
// deleted. That a lease is renewed is no change.
func (o Owners) Watch(ctx context.Context, w WatchOptions, handle func(Change[api.KeyOwner]) error) error {
	return watchItems(ctx, o.c, ownersPath, w, handle)
}

// Overrides reads and watches what operators asked for and what still counts. [Client.Overrides] makes it.
type Overrides struct{ c *Client }

const overridesPath = "/api/v1/overrides"

// List reads all overrides that the filter selects, by kind, scope and name. It may hold Group, Instance, Selector and
// Q. Instance selects those about it, and those that pin or move tasks to it. Labels are those of the task or instance.
func (o Overrides) List(ctx context.Context, f Filter) ([]api.Override, error) {
	return all[api.Override](ctx, o.c, overridesPath, f)
}

// Watch watches the overrides that the filter selects, as [Client.WatchStatus] does.
func (o Overrides) Watch(ctx context.Context, w WatchOptions, handle func(Change[api.Override]) error) error {
	return watchItems(ctx, o.c, overridesPath, w, handle)
}

// Events reads and watches what happens. [Client.Events] makes it.
type Events struct{ c *Client }

const eventsPath = "/api/v1/events"

// List reads what happened, newest first: Filter.Limit of them, 0: 500. The filter may hold Group, Task, Instance, Q
// and Since.
func (e Events) List(ctx context.Context, f Filter) ([]api.Event, error) {
	if f.Limit == 0 {
		f.Limit = api.DefaultLimit
	}
	return all[api.Event](ctx, e.c, eventsPath, f)
}

// Watch watches what happens, as [Client.WatchStatus] does. A snapshot has the newest first. After a break it goes on
// after the event seen last, without a snapshot, as long as that one is still known.
func (e Events) Watch(ctx context.Context, o WatchOptions, handle func(Change[api.Event]) error) error {
	return watchItems(ctx, e.c, eventsPath, o, handle)
}
