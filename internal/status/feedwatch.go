package status

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// watch sends the newest events, or those since the one that the reader saw last, and then each new one.
func (f *eventFeed) watch(w *watchers, out *stream, q *query, now func() time.Time) error {
	r := f.join(out.ctx)
	defer f.leave()
	_, _, _, gaps := r.state()
	next, sent, err := f.catchUp(w, out, r, q, now())
	if err != nil {
		return err
	}
	batch := make([]*update[api.Event], 0, updateBatch)
	for {
		taken, more, ok := r.take(batch[:0], next, updateBatch)
		switch _, _, _, late := r.state(); {
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
		text, err := u.text(&f.collection, true, q.hidden)
		if err != nil {
			return err
		}
		if err := out.text(text); err != nil {
			return err
		}
	}
	return nil
}

// catchUp sends what was before. It returns the number of the next event in the round, and the ids of those that may
// come again.
func (f *eventFeed) catchUp(
	w *watchers, out *stream, r *round, q *query, now time.Time,
) (next int, sent map[string]bool, err error) {
	if out.last != "" {
		if events, next, ok := r.after(out.last); ok {
			return next, nil, f.send(out, q, events, nil)
		}
		next = r.end()
		if f.log.knows(out.ctx, out.last) {
			sent, err = f.sendSince(out, q)
			return next, sent, err
		}
	}
	o, err := f.open(out.ctx, r, q, now)
	if err != nil {
		return 0, nil, err
	}
	return o.next, o.sent, w.begin(out, o)
}

// after is what the round has seen after that event, older ones that were late included; false: it does not know it.
func (r *round) after(id string) (events []*update[api.Event], next int, ok bool) {
	all, _, next := r.all()
	i := slices.IndexFunc(all, func(u *update[api.Event]) bool { return u.id == id })
	return all[i+1:], next, i >= 0
}

// sendSince sends what the store has after the last event that the reader saw.
func (f *eventFeed) sendSince(out *stream, q *query) (map[string]bool, error) {
	sent := map[string]bool{out.last: true}
	err := f.log.since(out.ctx, EventQuery{From: out.last}, func(e *api.Event) error {
		if sent[e.ID] {
			return nil
		}
		sent[e.ID] = true
		return f.send(out, q, []*update[api.Event]{{id: e.ID, after: copied(e)}}, nil)
	})
	return sent, err
}
