package status

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// watch sends the newest events, or those since the one that the reader saw last, and then each new one.
func (f *eventFeed) watch(w *watchers, out *stream, q *query, now func() time.Time) error {
	t, leave := f.shared.join(out.ctx)
	defer leave()
	select {
	case <-t.looked:
	case <-out.ctx.Done():
	}
	next, sent, err := f.catchUp(w, out, t, q, now())
	if err != nil {
		return err
	}
	return t.events.send(out, q, next, sent)
}

// catchUp sends what was before. It returns the number of the next event in the tail, and the ids of those that may
// come again.
func (f *eventFeed) catchUp(
	w *watchers, out *stream, t *tail, q *query, now time.Time,
) (next int, sent map[string]bool, err error) {
	if out.last != "" {
		if next, ok := t.after(out.last); ok {
			return next, nil, nil
		}
		next = t.events.end()
		if f.log.knows(out.ctx, out.last, q.public) {
			sent, err = f.sendSince(out, q)
			return next, sent, err
		}
	}
	o, err := f.open(out.ctx, t, q, now)
	if err != nil {
		return 0, nil, err
	}
	return o.next, o.sent, w.begin(out, o)
}

// after is the number of what the tail has seen after that event, older ones that were late included; false: it does
// not know it.
func (t *tail) after(id string) (next int, ok bool) {
	all, first, _ := t.events.all()
	i := slices.IndexFunc(all, func(u *update[api.Event]) bool { return u.id == id })
	return first + i + 1, i >= 0
}

// sendSince sends what the store has after the last event that the reader saw.
func (f *eventFeed) sendSince(out *stream, q *query) (map[string]bool, error) {
	sent := map[string]bool{out.last: true}
	err := f.log.since(out.ctx, snapshot.EventQuery{From: out.last}, q.public, func(e *api.Event) error {
		if sent[e.ID] {
			return nil
		}
		sent[e.ID] = true
		return (&update[api.Event]{list: &f.list, id: e.ID, after: e}).send(out, q)
	})
	return sent, err
}

// open is the newest events as a watch begins with them: from memory, where that is enough.
func (f *eventFeed) open(ctx context.Context, t *tail, q *query, now time.Time) (*initialSnapshot, error) {
	usable := func(o *initialSnapshot) bool {
		// since is another moment for each
		return q.since.IsZero() && o.stale == t.now().stale && t.events.holds(o.next, reusable)
	}
	same := conditions{subscription: t, scope: q.scope, limit: q.limit, hidden: q.hidden, public: q.public}
	return f.initial.get(ctx, same, usable, func() (*initialSnapshot, error) {
		list, made := f.newest(ctx, t, q, now)
		id := "none"
		if len(list.Items) > 0 {
			id = list.Items[0].ID
		}
		made.stale = list.Stale
		return made, made.pack(id, listLines(each(list.Items), "", list.Stale))
	})
}

// newest are the events for an initial snapshot, which has no text yet.
func (f *eventFeed) newest(
	ctx context.Context, t *tail, q *query, now time.Time,
) (api.List[api.Event], *initialSnapshot) {
	list, next, ok := f.remembered(t, q)
	if ok {
		return list, &initialSnapshot{next: next}
	}
	next = t.events.end() // what is written from now on comes as a change, and may be in the list as well
	list, err := f.log.page(ctx, q, now, watchPatience)
	if err != nil {
		list = f.log.stale(q)
	}
	sent := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		sent[list.Items[i].ID] = true
	}
	return list, &initialSnapshot{next: next, sent: sent}
}

// remembered is the list from memory; false: there may be more in the store that belongs to it.
func (f *eventFeed) remembered(t *tail, q *query) (list api.List[api.Event], next int, ok bool) {
	state := t.now()
	all, first, next := t.events.all()
	list.Stale = state.stale
	older := len(all) > 0 && all[0].after.Time.Before(q.since) // than the query asks for
	for _, u := range all {
		if matchEvent(q, u.after) {
			list.Items = append(list.Items, *shownEvent(u.after, q.hidden))
		}
	}
	slices.SortFunc(list.Items, func(a, b api.Event) int { return strings.Compare(b.ID, a.ID) })
	enough := len(list.Items) >= q.limit
	list.Items = list.Items[:min(len(list.Items), q.limit)]
	return list, next, state.known && (enough || older || state.only && first == state.begin)
}
