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
	t := f.join(out.ctx)
	defer f.leave()
	_, _, _, gaps := t.state()
	next, sent, err := f.catchUp(w, out, t, q, now())
	if err != nil {
		return err
	}
	batch := make([]*update[api.Event], 0, updateBatch)
	for {
		taken, more, ok := t.events.take(batch[:0], next, updateBatch)
		switch _, _, _, late := t.state(); {
		case late != gaps:
			return errGap
		case !ok:
			return errBehind
		}
		if err := f.send(out, q, taken, sent); err != nil {
			return err
		}
		next += len(taken)
		if len(taken) == updateBatch {
			continue
		}
		clear(batch[:cap(batch)]) // what waits keeps no events
		if err := out.flush(); err != nil {
			return err
		}
		if err := out.wait(more, 0); err != nil {
			return err
		}
	}
}

// send sends those that match and were not sent before.
func (f *eventFeed) send(out *stream, q *query, events []*update[api.Event], sent map[string]bool) error {
	for _, u := range events {
		if sent[u.id] || !matchEvent(q, u.after) {
			continue
		}
		text, err := u.text(&f.list, true, q.hidden)
		if err != nil {
			return err
		}
		if err := out.text(text); err != nil {
			return err
		}
	}
	return nil
}

// catchUp sends what was before. It returns the number of the next event in the tail, and the ids of those that may
// come again.
func (f *eventFeed) catchUp(
	w *watchers, out *stream, t *tail, q *query, now time.Time,
) (next int, sent map[string]bool, err error) {
	if out.last != "" {
		if events, next, ok := t.after(out.last); ok {
			return next, nil, f.send(out, q, events, nil)
		}
		next = t.events.end()
		if f.log.knows(out.ctx, out.last) {
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

// after is what the tail has seen after that event, older ones that were late included; false: it does not know it.
func (t *tail) after(id string) (events []*update[api.Event], next int, ok bool) {
	all, _, next := t.events.all()
	i := slices.IndexFunc(all, func(u *update[api.Event]) bool { return u.id == id })
	return all[i+1:], next, i >= 0
}

// sendSince sends what the store has after the last event that the reader saw.
func (f *eventFeed) sendSince(out *stream, q *query) (map[string]bool, error) {
	sent := map[string]bool{out.last: true}
	err := f.log.since(out.ctx, snapshot.EventQuery{From: out.last}, func(e *api.Event) error {
		if sent[e.ID] {
			return nil
		}
		sent[e.ID] = true
		return f.send(out, q, []*update[api.Event]{{id: e.ID, after: copied(e)}}, nil)
	})
	return sent, err
}

// open is the newest events as a watch begins with them: from memory, where that is enough.
func (f *eventFeed) open(ctx context.Context, t *tail, q *query, now time.Time) (*initialSnapshot, error) {
	usable := func(o *initialSnapshot) bool {
		_, _, stale, _ := t.state()
		// since is another moment for each
		return q.since.IsZero() && o.stale == stale && t.events.holds(o.next, reusable)
	}
	same := conditions{subscription: t, scope: q.scope, limit: q.limit, hidden: q.hidden}
	return f.initial.get(ctx, same, usable, func() (*initialSnapshot, error) {
		list, made := f.newest(ctx, t, q, now)
		id := "none"
		if len(list.Items) > 0 {
			id = list.Items[0].ID
		}
		made.stale = list.Stale
		var err error
		made.text, err = packEvent(func(b *body) {
			b.text("event: snapshot\nid: ", id, "\n")
			listLines(each(list.Items), "", list.Stale).writeTo(b)
			b.text("\n")
		})
		return made, err
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
	list, err := f.log.page(ctx, q, now)
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
	known, only, stale, _ := t.state()
	all, first, next := t.events.all()
	list.Stale = stale
	older := len(all) > 0 && all[0].after.Time.Before(q.since) // than the query asks for
	for _, u := range all {
		if matchEvent(q, u.after) {
			list.Items = append(list.Items, *shownEvent(u.after, q.hidden))
		}
	}
	slices.SortFunc(list.Items, func(a, b api.Event) int { return strings.Compare(b.ID, a.ID) })
	enough := len(list.Items) >= q.limit
	list.Items = list.Items[:min(len(list.Items), q.limit)]
	return list, next, known && (enough || older || only && first == 0)
}
