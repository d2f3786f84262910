package client

import (
	"context"

	"github.com/shardctl/shardctl/pkg/api"
)

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
