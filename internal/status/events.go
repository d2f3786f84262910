package status

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	eventBatch = 500
	// scanLimit bounds how many events one request looks at for those that match; the rest is for the next page.
	scanLimit = 20 * eventBatch
	// eventPace and eventIdle are the least and the most time between two looks of one watcher. Changes of the snapshot wake it;
	// not every event comes with one.
	eventPace = 500 * time.Millisecond
	eventIdle = 5 * time.Second
	// eventTimeout limits one reading, so that a store that hangs does not hold requests.
	eventTimeout = 5 * time.Second
	// lateEvents is how many of the newest events a watcher knows by id: replicas write events at the same time, and a later id
	// may be seen first.
	lateEvents = 100
)

// eventLog reads events and remembers the newest, to have something to show while the store is away.
type eventLog struct {
	source EventSource

	mu     sync.Mutex
	newest []Event
}

func (l *eventLog) read(ctx context.Context, q EventQuery) ([]Event, error) {
	if l.source == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	events, err := l.source.Events(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.Group == "" && q.To == "" && q.From == "" && q.Since.IsZero() && !q.OldestFirst {
		l.mu.Lock()
		l.newest = events
		l.mu.Unlock()
	}
	return events, nil
}

func (l *eventLog) remembered() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

func matchEvent(q *query, e *Event) bool {
	instance := len(q.instances) == 0 || slices.Contains(q.instances, e.From) || slices.Contains(q.instances, e.To)
	return instance && q.inGroup(groupOf(e.Key)) && !e.Time.Before(q.since) &&
		q.has(e.Key, e.Type, e.Reason, e.From, e.To, e.By, e.Message)
}

func groupOf(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return key
}

func (q *query) onlyGroup() string {
	if len(q.groups) == 1 {
		return q.groups[0]
	}
	return ""
}

func (s *server) listEvents(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, "/api/v1/events", []string{"group", "instance", "q", "since"}, nil)
	if bad != nil {
		return bad
	}
	if q.watch {
		return s.stream(w, r, func(out *stream) error { return s.watchEvents(out, &q) })
	}
	list, err := s.events.page(r.Context(), &q, s.now())
	if err != nil {
		if q.page.Key != "" {
			return unavailable(ReasonStoreUnreachable, "the store does not answer, and older events are only there")
		}
		list = s.events.stale(&q)
	}
	writeJSON(w, list)
	return nil
}

// page is the newest events that match, from where the query continues.
func (l *eventLog) page(ctx context.Context, q *query, now time.Time) (List[Event], error) {
	var list List[Event]
	to := q.page.Key
	for scanned := 0; ; scanned += eventBatch {
		if scanned >= scanLimit {
			list.Continue = q.next(to, now)
			return list, nil
		}
		batch, err := l.read(ctx, EventQuery{Group: q.onlyGroup(), To: to, Since: q.since, Limit: eventBatch})
		if err != nil {
			return list, err
		}
		for i := range batch {
			if !matchEvent(q, &batch[i]) {
				continue
			}
			if len(list.Items) == q.limit {
				list.Continue = q.next(list.Items[q.limit-1].ID, now)
				return list, nil
			}
			list.Items = append(list.Items, batch[i])
		}
		if len(batch) < eventBatch {
			return list, nil
		}
		to = batch[len(batch)-1].ID
	}
}

func (l *eventLog) stale(q *query) List[Event] {
	list := List[Event]{Stale: true}
	for _, e := range l.remembered() {
		if len(list.Items) < q.limit && matchEvent(q, &e) {
			list.Items = append(list.Items, e)
		}
	}
	return list
}

// watchEvents sends the newest events, or those since the one that the reader saw last, and then each new one.
func (s *server) watchEvents(out *stream, q *query) error {
	seen := seenEvents{}
	if out.last != "" && s.events.knows(out.ctx, out.last) {
		seen.add(out.last)
	} else {
		list, err := s.events.page(out.ctx, q, s.now())
		if err != nil {
			list = s.events.stale(q)
		}
		list.Continue = ""
		id := "none"
		if len(list.Items) > 0 {
			id = list.Items[0].ID
		}
		for i := range list.Items {
			seen.add(list.Items[i].ID)
		}
		if err := out.send("snapshot", id, list); err != nil {
			return err
		}
	}
	for {
		changed := s.Source.Changed()
		if err := s.sendNew(out, q, &seen); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		if err := out.wait(nil, eventPace); err != nil {
			return err
		}
		if err := out.wait(changed, eventIdle); err != nil {
			return err
		}
	}
}

// sendNew sends the events that were not seen, oldest first. A store that is away is tried again later.
func (s *server) sendNew(out *stream, q *query, seen *seenEvents) error {
	from := seen.floor()
	for {
		batch, err := s.events.read(out.ctx, EventQuery{
			Group: q.onlyGroup(), From: from, Since: q.since, Limit: eventBatch, OldestFirst: true,
		})
		if err != nil {
			return nil //nolint:nilerr // the status says that the store is away; the next look tries again
		}
		for i := range batch {
			if !seen.add(batch[i].ID) || !matchEvent(q, &batch[i]) {
				continue
			}
			if err := out.send("upsert", batch[i].ID, batch[i]); err != nil {
				return err
			}
		}
		if len(batch) < eventBatch {
			seen.trim()
			return nil
		}
		from = batch[len(batch)-1].ID
	}
}

// knows says whether that event is still there, so that a reader can go on after it.
func (l *eventLog) knows(ctx context.Context, id string) bool {
	batch, err := l.read(ctx, EventQuery{From: id, Limit: 1, OldestFirst: true})
	return err == nil && len(batch) == 1 && batch[0].ID == id
}

// seenEvents are the ids of the newest events that one watcher has been sent.
type seenEvents struct{ ids []string }

// add notes the id and says whether it is new.
func (s *seenEvents) add(id string) bool {
	i, found := slices.BinarySearch(s.ids, id)
	if !found {
		s.ids = slices.Insert(s.ids, i, id)
	}
	return !found
}

// floor is from where to look for new ones.
func (s *seenEvents) floor() string {
	if len(s.ids) == 0 {
		return ""
	}
	return s.ids[max(0, len(s.ids)-lateEvents)]
}

func (s *seenEvents) trim() {
	if extra := len(s.ids) - lateEvents; extra > 0 {
		s.ids = slices.Delete(s.ids, 0, extra)
	}
}
