package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// eventPace and eventIdle are the least and the most time between two looks for new events. Changes of the cluster
	// make the feed look; not every event comes with one.
	eventPace = 500 * time.Millisecond
	eventIdle = 5 * time.Second
	// lateEvents is how many of the newest events are known by id. Replicas write events at the same time, and a later
	// id may be seen first.
	lateEvents = 100
	// feedLimit is how many events a watcher may be behind before it is dropped. It comes again and goes on after the
	// last event that it has seen.
	feedLimit = 10000
)

// The reasons why watchers of events are dropped.
var (
	errBehind = errors.New("the watcher reads too slowly: too many events have come since")
	errGap    = errors.New("the store was unreachable when the watch began: events may be missing in between")
)

// eventFeed looks for new events on behalf of all watchers, and only while there are any.
type eventFeed struct {
	log     eventLog
	changed func() <-chan struct{}
	logger  logr.Logger

	mu       sync.Mutex
	round    *round // nil while there are no watchers
	watchers int
}

func newEventFeed(source EventSource, logger logr.Logger) *eventFeed {
	f := &eventFeed{log: eventLog{source: source}, changed: func() <-chan struct{} { return nil }, logger: logger}
	if source != nil {
		f.changed = source.EventsChanged
	}
	return f
}

// round is one time of looking, from the first watcher to the last.
type round struct {
	stop context.CancelFunc
	done chan struct{} // closed when looking has ended
	once chan struct{} // closed after the first look

	mu      sync.Mutex
	arrived []Event // in the order in which they were seen
	first   int     // the number of arrived[0]; numbers begin at 0
	gaps    int     // how often looking began late, so that events before that may be missing
	more    chan struct{}
}

// reader is one watcher's place in a round.
type reader struct {
	*round
	next, gaps int
}

// join begins to look with the first watcher. What arrives after join has returned is read by [reader.take]; what is
// older is in the store. Call leave at the end.
func (f *eventFeed) join(ctx context.Context) *reader {
	f.mu.Lock()
	if f.watchers++; f.round == nil {
		looking, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first watcher
		f.round = &round{stop: stop, done: make(chan struct{}), once: make(chan struct{}), more: make(chan struct{})}
		go f.look(looking, f.round)
	}
	r := f.round
	f.mu.Unlock()
	select {
	case <-r.once:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &reader{round: r, next: r.first + len(r.arrived), gaps: r.gaps}
}

// leave ends looking with the last watcher.
func (f *eventFeed) leave() {
	f.mu.Lock()
	var last *round
	if f.watchers--; f.watchers == 0 {
		last, f.round = f.round, nil
	}
	f.mu.Unlock()
	if last != nil {
		last.stop()
		<-last.done
	}
}

// look adds new events to the round until ctx ends.
func (f *eventFeed) look(ctx context.Context, r *round) {
	defer close(r.done)
	seen := seenEvents{}
	changed := f.changed()
	known := f.begin(ctx, &seen)
	close(r.once)
	for rest(ctx, nil, eventPace) && rest(ctx, changed, eventIdle) {
		changed = f.changed()
		if !known {
			if known = f.begin(ctx, &seen); known {
				r.beganLate()
			}
			continue
		}
		err := f.log.since(ctx, seen.floor(), func(e *Event) error {
			if seen.add(e.ID) {
				r.add(*e)
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			f.logger.V(1).Info("New events cannot be read: trying again", "error", err.Error())
		} else {
			seen.trim()
		}
		r.wake()
	}
}

// begin notes the newest events as seen; false: the store does not answer.
func (f *eventFeed) begin(ctx context.Context, seen *seenEvents) bool {
	newest, err := f.log.read(ctx, EventQuery{Limit: eventBatch})
	for i := range newest {
		seen.add(newest[i].ID)
	}
	return err == nil
}

// rest waits until changed is closed or d is over; false: ctx ended first.
func rest(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *round) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.arrived) >= 2*feedLimit {
		r.first += feedLimit
		r.arrived = slices.Delete(r.arrived, 0, feedLimit)
	}
	r.arrived = append(r.arrived, e)
}

func (r *round) beganLate() {
	r.mu.Lock()
	r.gaps++
	r.mu.Unlock()
	r.wake()
}

func (r *round) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.more)
	r.more = make(chan struct{})
}

// take returns some of the events that the reader has not had, and a channel that is closed when there may be more.
func (r *reader) take() ([]Event, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gaps != r.round.gaps:
		return nil, nil, errGap
	case r.next < r.first:
		return nil, nil, errBehind
	}
	from := r.next - r.first
	events := slices.Clone(r.arrived[from:min(len(r.arrived), from+eventBatch)])
	r.next += len(events)
	return events, r.more, nil
}

// watch sends the newest events, or those since the one that the reader saw last, and then each new one.
func (f *eventFeed) watch(out *stream, q *query, now func() time.Time) error {
	place := f.join(out.ctx)
	defer f.leave()
	sent, err := f.catchUp(out, q, now())
	if err != nil {
		return err
	}
	for {
		events, more, err := place.take()
		if err != nil {
			return err
		}
		for i := range events {
			if e := &events[i]; !sent[e.ID] && matchEvent(q, e) {
				if err := out.send("upsert", e.ID, e); err != nil {
					return err
				}
			}
		}
		if len(events) == eventBatch {
			continue
		}
		if err := out.flush(); err != nil {
			return err
		}
		if err := out.wait(more, 0); err != nil {
			return err
		}
	}
}

// catchUp sends what is in the store and returns the ids of the newest of it.
func (f *eventFeed) catchUp(out *stream, q *query, now time.Time) (map[string]bool, error) {
	sent := map[string]bool{}
	if out.last != "" && f.log.knows(out.ctx, out.last) {
		err := f.log.since(out.ctx, out.last, func(e *Event) error {
			if e.ID == out.last || sent[e.ID] {
				return nil
			}
			sent[e.ID] = true
			if !matchEvent(q, e) {
				return nil
			}
			return out.send("upsert", e.ID, e)
		})
		sent[out.last] = true
		return sent, err
	}
	list, err := f.log.page(out.ctx, q, now)
	if err != nil {
		list = f.log.stale(q)
	}
	id := "none"
	if len(list.Items) > 0 {
		id = list.Items[0].ID
	}
	for i := range list.Items {
		sent[list.Items[i].ID] = true
	}
	return sent, out.sendLines("snapshot", id, listLines(each(list.Items), "", list.Stale))
}

// seenEvents are the ids of the newest events that the feed has seen.
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
