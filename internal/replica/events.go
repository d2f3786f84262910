package replica

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
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

// listEvents asks the store for events. Malformed ones, by a change out of band, take no place from others.
func listEvents(ctx context.Context, db store.Store, q status.EventQuery) ([]api.Event, error) {
	if !q.Since.IsZero() {
		q.From = max(q.From, fmt.Sprintf("%013d", q.Since.UnixMilli()))
	}
	events := []api.Event{}
	for {
		left := q.Limit - len(events)
		res, err := db.List(ctx, store.KindEvent, store.Query{
			Group: q.Group, From: q.From, To: q.To, Limit: left, Reverse: !q.OldestFirst,
		})
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for _, d := range res.Docs {
			if e, err := record.EventFrom(d); err == nil {
				events = append(events, shownEvent(&e))
			}
		}
		if len(res.Docs) < left || len(events) == q.Limit {
			return events, nil
		}
		if last := res.Docs[len(res.Docs)-1].ID; q.OldestFirst {
			q.From = last + "\x00"
		} else {
			q.To = last
		}
	}
}

func shownEvent(e *record.Event) api.Event {
	return api.Event{
		ID: e.ID, Time: api.Millis(e.Time), Type: e.Type, Reason: string(e.Reason), Key: string(e.Key),
		From: e.From, To: e.To, FencingToken: e.Token, By: e.By, Message: e.Message,
	}
}
