package status

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
)

const (
	watchPace = 100 * time.Millisecond // a watcher is sent changes at most this often, and they are then joined
	// mostChanges is how many changes are sent one by one. A watcher is sent the whole list in place of more.
	mostChanges = 2000
)

// topic is one list for all who watch it. Each watcher is sent the difference between the list that it has and the
// newest one, so that it may take its time, and nothing is kept for it but that list. Use newTopic.
type topic[T any] struct {
	list    collection[T]
	source  snapshot.Source
	refresh func(context.Context) // has the source look for what it does not follow; nil: it follows all

	// What was asked for last. Watchers that keep up ask for the same: they have the same lists, and share one diff.
	mu            sync.Mutex
	at            *snapshot.Cluster
	items         []T
	before, after []T
	changes       []change[T]
}

func newTopic[T any](list collection[T], source snapshot.Source, refresh func(context.Context)) *topic[T] {
	return &topic[T]{list: list, source: source, refresh: refresh}
}

// watch sends the list and then what changes in it, until the stream ends.
func (t *topic[T]) watch(out *stream, q *query) error {
	defer t.forget()
	sent, changed, err := t.begin(out, q)
	for err == nil {
		if err = t.wait(out, changed); err != nil {
			break
		}
		changed = t.source.Changed() // asked for first, then the snapshot: none is missed
		now := t.source.Snapshot()
		items := t.listed(now)
		changes := t.between(sent, items)
		if len(changes) > mostChanges || t.large(changes) {
			sent, changed, err = t.begin(out, q)
			continue
		}
		err = t.send(out, q, eventID(now), changes)
		sent = items
	}
	return err
}

// begin sends the whole list. It returns that list, and a channel that is closed when there is a newer snapshot.
func (t *topic[T]) begin(out *stream, q *query) (sent []T, changed <-chan struct{}, err error) {
	err = out.list(func() (string, lines) {
		changed = t.source.Changed()
		now := t.source.Snapshot()
		sent = t.listed(now)
		return eventID(now), t.list.lines(sent, now.Status.Stale, q)
	})
	return sent, changed, err
}

// eventID is the ID of events that lead to the snapshot.
func eventID(s *snapshot.Cluster) string { return strconv.FormatUint(s.Version, 10) }

// send sends the changes as a watcher with this query sees them: upserts, deletes, or nothing.
func (t *topic[T]) send(out *stream, q *query, id string, changes []change[T]) error {
	for _, c := range changes {
		switch {
		case c.after != nil && t.list.selects(q, c.after):
			out.event("upsert", id, t.list.show(q.hidden, c.after))
		case c.before != nil && t.list.selects(q, c.before):
			out.event("delete", id, t.list.show(q.hidden, c.before))
		}
	}
	return out.flush()
}

// large says whether there is a change that is better written line by line, as a list is.
func (t *topic[T]) large(changes []change[T]) bool {
	return t.list.large != nil && slices.ContainsFunc(changes, func(c change[T]) bool {
		return c.after != nil && t.list.large(c.after)
	})
}

// wait returns when there may be something new, and not before watchPace.
func (t *topic[T]) wait(out *stream, changed <-chan struct{}) error {
	again := time.Duration(0)
	if t.refresh != nil {
		again = mutexAge
	}
	if err := out.wait(changed, again); err != nil {
		return err
	}
	if err := out.wait(nil, watchPace); err != nil || t.refresh == nil {
		return err
	}
	done := make(chan struct{}) // a store may take its time, and the reader is to hear that the stream lives
	go func() {
		defer close(done)
		t.refresh(out.ctx)
	}()
	err := out.wait(done, 0)
	<-done
	return err
}

// listed is the list of a snapshot. Some lists are made for each one: then all watchers have the same.
func (t *topic[T]) listed(s *snapshot.Cluster) []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != s {
		t.at, t.items = s, t.list.items(s)
	}
	return t.items
}

// between is what differs between two lists.
func (t *topic[T]) between(before, after []T) []change[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !identical(t.before, before) || !identical(t.after, after) {
		t.before, t.after, t.changes = before, after, diff(before, after, t.list.id, t.list.same)
	}
	return t.changes
}

// forget lets go of what was asked for last. Watchers that go on ask for it once more.
func (t *topic[T]) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.items, t.before, t.after, t.changes = nil, nil, nil, nil, nil
}
