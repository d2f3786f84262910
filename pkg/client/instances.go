package client

import (
	"context"
	"net/url"

	"github.com/shardctl/shardctl/pkg/api"
)

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
