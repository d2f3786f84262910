package client

import (
	"context"

	"github.com/shardctl/shardctl/pkg/api"
)

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
