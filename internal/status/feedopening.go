package status

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// open is the newest events as a watch begins with them: from memory, where that is enough.
func (f *eventFeed) open(ctx context.Context, r *round, q *query, now time.Time) (*opening, error) {
	usable := func(o *opening) bool {
		_, _, stale, _ := r.state()
		return q.since.IsZero() && o.stale == stale && r.holds(o.next, reusable) // since is another moment for each
	}
	same := conditions{course: r, scope: q.scope, limit: q.limit, hidden: q.hidden}
	return f.openings.get(ctx, same, usable, func() (*opening, error) {
		list, made := f.newest(ctx, r, q, now)
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

// newest are the events for an opening, which has no text yet.
func (f *eventFeed) newest(ctx context.Context, r *round, q *query, now time.Time) (api.List[api.Event], *opening) {
	list, next, ok := f.remembered(r, q)
	if ok {
		return list, &opening{next: next}
	}
	next = r.end() // what is written from now on comes as a change, and may be in the list as well
	list, err := f.log.page(ctx, q, now)
	if err != nil {
		list = f.log.stale(q)
	}
	sent := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		sent[list.Items[i].ID] = true
	}
	return list, &opening{next: next, sent: sent}
}

// remembered is the list from memory; false: there may be more in the store that belongs to it.
func (f *eventFeed) remembered(r *round, q *query) (list api.List[api.Event], next int, ok bool) {
	known, only, stale, _ := r.state()
	all, first, next := r.all()
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
