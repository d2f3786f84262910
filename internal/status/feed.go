package status

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/api"
)

const (
	// eventPace is the least time between two looks for new events. What the source reports makes the feed look.
	eventPace = 500 * time.Millisecond
	// eventIdle is the most time between two looks where the source reports nothing, or the last look failed.
	eventIdle = 5 * time.Second
	// lateEvents is how many of the newest events are known by id. Replicas write events at the same time, and a later
	// id may be seen first.
	lateEvents = 100
	// feedBytes is how much of events a watcher may be behind before it is dropped, in bytes: some thousands. It comes
	// again and goes on after the last event that it has seen.
	feedBytes = 8 << 20
	// eventOpenings is how many lists of events are made at once. Each may wait for the store.
	eventOpenings = 8
)

// The reasons why watchers of events are dropped.
var (
	errBehind = errors.New("the watcher reads too slowly: too many events have come since")
	errGap    = errors.New("the store was unreachable when the watch began: events may be missing in between")
)

// eventFeed looks for new events on behalf of all watchers, and only while there are any. What it has seen it
// remembers, so that a watcher that comes later needs no look of its own. While nothing happens it does not look, where
// the source reports new events.
type eventFeed struct {
	collection[api.Event]

	log      eventLog
	changed  func() <-chan struct{}
	openings *openings
	logger   logr.Logger

	mu       sync.Mutex
	round    *round // nil while there are no watchers
	watchers int
}

func newEventFeed(source EventSource, logger logr.Logger) *eventFeed {
	f := &eventFeed{
		collection: collection[api.Event]{match: matchEvent, shown: shownEvent}, log: eventLog{source: source},
		changed: func() <-chan struct{} { return nil }, openings: newOpenings(eventOpenings), logger: logger,
	}
	if source != nil {
		f.changed = source.EventsChanged
	}
	return f
}

// round is one time of looking, from the first watcher to the last. Its backlog begins with the newest events of the
// store; the others are in the order in which they were seen.
type round struct {
	*backlog[*update[api.Event]]

	stop context.CancelFunc
	done chan struct{} // closed when looking has ended
	once chan struct{} // closed after the first look

	mu    sync.Mutex
	known bool // the newest events were read when the round began
	only  bool // there were no others in the store
	stale bool // the store did not answer last
	gaps  int  // how often looking began late, so that events before that may be missing
}

// join begins to look with the first watcher, and waits for the first look. Call leave at the end.
func (f *eventFeed) join(ctx context.Context) *round {
	f.mu.Lock()
	if f.watchers++; f.round == nil {
		looking, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first watcher
		f.round = &round{
			backlog: newBacklog[*update[api.Event]](feedBytes), stop: stop, done: make(chan struct{}),
			once: make(chan struct{}),
		}
		go f.look(looking, f.round)
	}
	r := f.round
	f.mu.Unlock()
	select {
	case <-r.once:
	case <-ctx.Done():
	}
	return r
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
		f.openings.forget(last)
	}
}

// look adds new events to the round until ctx ends.
func (f *eventFeed) look(ctx context.Context, r *round) {
	defer close(r.done)
	seen := seenEvents{}
	changed := f.changed()
	known := f.begin(ctx, r, &seen)
	well := known
	close(r.once)
	for rest(ctx, nil, eventPace) && rest(ctx, changed, patience(changed != nil && well)) {
		changed = f.changed()
		if !known {
			if known = f.begin(ctx, r, &seen); known {
				r.beganLate()
			}
			well = known
			continue
		}
		before := r.end()
		err := f.log.since(ctx, seen.floor(), func(e *api.Event) error {
			if seen.add(e.ID) {
				return f.add(r, e)
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			f.logger.V(1).Info("New events cannot be read: trying again", "error", err.Error())
		} else {
			seen.trim()
		}
		well = err == nil
		r.answered(well)
		if r.end() != before {
			r.wake()
		}
	}
}

// begin reads the newest events; false: the store does not answer.
func (f *eventFeed) begin(ctx context.Context, r *round, seen *seenEvents) bool {
	newest, err := f.log.read(ctx, EventQuery{Limit: eventBatch})
	for i := len(newest) - 1; i >= 0 && err == nil; i-- {
		seen.add(newest[i].ID)
		err = f.add(r, &newest[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.only, r.stale = err == nil, err == nil && len(newest) < eventBatch, err != nil
	return r.known
}

func (f *eventFeed) add(r *round, e *api.Event) error {
	u := &update[api.Event]{id: e.ID, after: copied(e)}
	weight, err := u.weight(&f.collection)
	if err == nil {
		r.add(u, weight)
	}
	return err
}

// patience is how long to wait for a report that there may be new events; 0: however long it takes.
func patience(reported bool) time.Duration {
	if reported {
		return 0
	}
	return eventIdle
}

// rest waits until changed is closed or d, unless it is 0, is over; false: ctx ended first.
func rest(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-changed:
		return true
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *round) answered(well bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = !well
}

func (r *round) beganLate() {
	r.mu.Lock()
	r.gaps++
	r.mu.Unlock()
	r.wake()
}

// state is what is known of the store.
func (r *round) state() (known, only, stale bool, gaps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known, r.only, r.stale, r.gaps
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
