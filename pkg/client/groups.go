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
