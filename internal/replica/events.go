package replica

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// listEvents asks the store for events.
func listEvents(ctx context.Context, db store.Store, q status.EventQuery) ([]status.Event, error) {
	from := q.From
	if !q.Since.IsZero() {
		from = max(from, fmt.Sprintf("%013d", q.Since.UnixMilli()))
	}
	res, err := db.List(ctx, store.KindEvent, store.Query{
		Group: q.Group, From: from, To: q.To, Limit: q.Limit, Reverse: !q.OldestFirst,
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events := make([]status.Event, 0, len(res.Docs))
	for _, d := range res.Docs {
		e, err := record.EventFrom(d)
		if err != nil {
			continue // malformed, by a change out of band
		}
		events = append(events, status.Event{
			ID: e.ID, Time: status.Millis(e.Time), Type: e.Type, Reason: string(e.Reason), Key: string(e.Key),
			From: e.From, To: e.To, FencingToken: e.Token, By: e.By, Message: e.Message,
		})
	}
	return events, nil
}
