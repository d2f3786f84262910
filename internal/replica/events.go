package replica

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// writtenEvents wakes those who wait for new events. The zero value is ready. It may be used from many goroutines.
type writtenEvents struct {
	mu   sync.Mutex
	next chan struct{} // closed by wake; nil while no one waits
}

// wake reports that new events can be read. It does not block.
func (w *writtenEvents) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		close(w.next)
		w.next = nil
	}
}

// wait returns a channel that the next wake closes.
func (w *writtenEvents) wait() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = make(chan struct{})
	}
	return w.next
}

// listEvents asks the store for events.
func listEvents(ctx context.Context, db store.Store, q status.EventQuery) ([]api.Event, error) {
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
	events := make([]api.Event, 0, len(res.Docs))
	for _, d := range res.Docs {
		e, err := record.EventFrom(d)
		if err != nil {
			continue // malformed, by a change out of band
		}
		events = append(events, api.Event{
			ID: e.ID, Time: api.Millis(e.Time), Type: e.Type, Reason: string(e.Reason), Key: string(e.Key),
			From: e.From, To: e.To, FencingToken: e.Token, By: e.By, Message: e.Message,
		})
	}
	return events, nil
}
