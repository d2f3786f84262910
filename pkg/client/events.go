package client

import (
	"context"

	"github.com/shardctl/shardctl/pkg/api"
)

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
