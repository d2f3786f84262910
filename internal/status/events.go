package status

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

const (
	eventBatch = 500
	// scanLimit bounds how many events one request looks at for those that match; the rest is for the next page.
	scanLimit = 20 * eventBatch
	// eventTimeout limits one reading, so that a store that hangs does not hold requests.
	eventTimeout = 5 * time.Second
)

// eventLog reads events and remembers the newest, to have something to show while the store is unreachable.
type eventLog struct {
	source snapshot.EventSource
	pace   *pace // of reads for strangers

	mu     sync.Mutex
	newest []api.Event
}

func (l *eventLog) read(ctx context.Context, q snapshot.EventQuery) ([]api.Event, error) {
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

func (l *eventLog) remembered() []api.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

func matchEvent(q *query, e *api.Event) bool {
	instance := len(q.instances) == 0 || slices.Contains(q.instances, e.From) || slices.Contains(q.instances, e.To)
	return instance && (q.task == "" || q.task == e.Key) && q.inGroup(groupOf(e.Key)) && !e.Time.Before(q.since) &&
		q.has(e.Key, e.Type, e.Reason, e.From, e.To, e.By, shownEvent(e, q.hidden).Message)
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
	switch {
	case q.task != "":
		return groupOf(q.task)
	case len(q.groups) == 1:
		return q.groups[0]
	}
	return ""
}

const eventsPath = "/api/v1/events"

// eventParams are the conditions that the list of events takes.
var eventParams = []string{"group", "task", "instance", "q", "since"}

func (s *server) listEvents(w http.ResponseWriter, r *http.Request) *web.Error {
	q, bad := s.query(r, eventsPath, eventParams, nil)
	if bad != nil {
		return bad
	}
	if isOdd(q.page.Key) { // the store is asked for it
		return web.Invalid(api.FieldError{Field: "continue", Message: errToken.Error()})
	}
	if q.watch {
		return s.watch.stream(w, r, func(out *stream) error { return s.feed.watch(out, &q, s.now) })
	}
	return s.shares.of(r).read.get(r, 0, func(ctx context.Context, b *body) *web.Error {
		list, err := s.feed.log.page(ctx, &q, s.now(), answerPatience)
		if errors.Is(err, errBusy) {
			return busy()
		}
		if err != nil {
			if q.page.Key != "" {
				return web.Unavailable(
					api.ReasonStoreUnreachable, "the store does not answer, and older events are only there",
				)
			}
			list = s.feed.log.stale(&q)
		}
		listLines(each(list.Items), list.Continue, list.Stale)(b)
		return nil
	}).sendTagged(w, r, mediaJSON)
}

// page is the newest events that match, from where the query continues. With errBusy a stranger would have to wait
// longer for a turn than patience; once something was read, the rest is for the next page instead.
func (l *eventLog) page(
	ctx context.Context, q *query, now time.Time, patience time.Duration,
) (api.List[api.Event], error) {
	var list api.List[api.Event]
	to := q.page.Key
	for scanned := 0; ; scanned += eventBatch {
		none := l.pace.turn(ctx, q.public, patience)
		if none != nil && scanned == 0 {
			return list, none
		}
		if none != nil || scanned >= scanLimit {
			list.Continue = q.next(to, now)
			return list, nil //nolint:nilerr // the rest is for the next page
		}
		batch, err := l.read(ctx, snapshot.EventQuery{Group: q.onlyGroup(), To: to, Since: q.since, Limit: eventBatch})
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
			list.Items = append(list.Items, *shownEvent(&batch[i], q.hidden))
		}
		if len(batch) < eventBatch {
			return list, nil
		}
		to = batch[len(batch)-1].ID
	}
}

func (l *eventLog) stale(q *query) api.List[api.Event] {
	list := api.List[api.Event]{Stale: true}
	for _, e := range l.remembered() {
		if len(list.Items) < q.limit && matchEvent(q, &e) {
			list.Items = append(list.Items, *shownEvent(&e, q.hidden))
		}
	}
	return list
}

// knows says whether that event is still there, so that a reader can go on after it; false also when a stranger has to
// wait for a turn.
func (l *eventLog) knows(ctx context.Context, id string, public bool) bool {
	if l.pace.turn(ctx, public, answerPatience) != nil {
		return false
	}
	batch, err := l.read(ctx, snapshot.EventQuery{From: id, Limit: 1, OldestFirst: true})
	return err == nil && len(batch) == 1 && batch[0].ID == id
}

// since calls handle with each event that the query selects, the oldest first. One may come twice.
func (l *eventLog) since(
	ctx context.Context, q snapshot.EventQuery, public bool, handle func(*api.Event) error,
) error {
	q.Limit, q.OldestFirst = eventBatch, true
	for {
		if err := l.pace.turn(ctx, public, watchPatience); err != nil {
			return err
		}
		batch, err := l.read(ctx, q)
		if err != nil {
			return err
		}
		for i := range batch {
			if err := handle(&batch[i]); err != nil {
				return err
			}
		}
		if len(batch) < eventBatch {
			return nil
		}
		q.From = batch[len(batch)-1].ID
	}
}
