package status

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

const (
	// eventPace is the least time between two looks for new events. What the source reports makes the feed look.
	eventPace = 500 * time.Millisecond
	// eventIdle is the most time between two looks where the source reports nothing, or the last look failed.
	eventIdle = 5 * time.Second
	// lateEvents is how many of the newest events are known by id, at least. Replicas write events at the same time,
	// and a later id may be seen first.
	lateEvents = 100
	// lateFor is how much older than the newest one an event may be, however many came in between. Ids are ordered by
	// the time of what happened, and a replica writes a while after that: a batch at a time, and again when the store
	// did not answer.
	lateFor = 30 * time.Second
	// latePace is the least time between two looks at all of lateFor, which read again what was seen.
	latePace = 2 * time.Second
	// feedBytes is how much of events a watcher may be behind before it is dropped, in bytes: some thousands. It comes
	// again and goes on after the last event that it has seen.
	feedBytes = 8 << 20
	// maxEventReads is how many lists of events are made at once. Each may wait for the store.
	maxEventReads = 8
)

// eventFeed looks for new events on behalf of all watchers, and only while there are any. What it has seen it
// remembers, so that a watcher that comes later needs no look of its own. While nothing happens it does not look, where
// the source reports new events.
//
// It is no topic. Stores number the revisions of one document, and nothing across documents: so no number says which
// events a reader has, and one with an older id may appear after a newer one.
type eventFeed struct {
	list    collection[api.Event]
	log     eventLog
	changed func() <-chan struct{}
	initial *initialSnapshots
	logger  logr.Logger
	shared  shared[tail]
}

func newEventFeed(source snapshot.EventSource, lists *pace, logger logr.Logger) *eventFeed {
	f := &eventFeed{
		list: collection[api.Event]{match: matchEvent, shown: shownEvent}, log: eventLog{source: source, pace: lists},
		changed: func() <-chan struct{} { return nil }, initial: newInitialSnapshots(maxEventReads), logger: logger,
	}
	if source != nil {
		f.changed = source.EventsChanged
	}
	f.shared = shared[tail]{start: newTail, work: f.poll, ended: f.initial.forget}
	return f
}

// tail is what was read of the store's events, from the first watcher to the last. It begins with the newest events of
// the store; the others are in the order in which they were seen.
type tail struct {
	events *backlog[api.Event]
	looked chan struct{} // closed after the first look

	mu    sync.Mutex
	state tailState
}

// tailState is what is known of the store.
type tailState struct {
	known bool // the newest events were read, which the tail begins with
	only  bool // there were no others in the store
	begin int  // the number of the first of them
	stale bool // the store did not answer last
}

func newTail() *tail {
	return &tail{events: newBacklog[api.Event](feedBytes), looked: make(chan struct{})}
}

func (t *tail) now() tailState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// poll adds new events to the tail until ctx ends.
func (f *eventFeed) poll(ctx context.Context, t *tail) {
	seen := seenEvents{}
	changed := f.changed()
	known := f.begin(ctx, t, &seen)
	well, all := known, true // all: the last look was for those that are late as well
	var looked time.Time     // for those
	close(t.looked)
	for sleepOrChange(ctx, nil, eventPace) &&
		sleepOrChange(ctx, changed, pollInterval(changed != nil && well, all, looked)) {
		changed = f.changed()
		if !known {
			known = f.begin(ctx, t, &seen)
			well = known
			continue
		}
		q := seen.newest()
		if all = time.Since(looked) >= latePace; all {
			q, looked = seen.late(), time.Now()
		}
		well = f.look(ctx, t, &seen, q)
	}
}

// begin reads the newest events; false: the store does not answer. Who watches already begins again, since there may
// be others between these and those that it has.
func (f *eventFeed) begin(ctx context.Context, t *tail, seen *seenEvents) bool {
	newest, err := f.log.read(ctx, snapshot.EventQuery{Limit: eventBatch})
	state := tailState{stale: err != nil}
	if err == nil {
		var updates []*update[api.Event]
		for i := range slices.Backward(newest) {
			updates = f.note(updates, seen, &newest[i])
		}
		if len(newest) == eventBatch {
			seen.begin = newest[eventBatch-1].ID
		}
		t.events.restart(updates...)
		state = tailState{known: true, only: seen.begin == "", begin: t.events.end() - len(updates)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = state
	return state.known
}

// look adds the new events that the query selects; false: the store does not answer.
func (f *eventFeed) look(ctx context.Context, t *tail, seen *seenEvents, q snapshot.EventQuery) bool {
	var updates []*update[api.Event]
	err := f.log.since(ctx, q, false, func(e *api.Event) error {
		updates = f.note(updates, seen, e)
		return nil
	})
	if err == nil {
		seen.trim()
	} else if ctx.Err() == nil {
		f.logger.V(1).Info("New events cannot be read: trying again", "error", err.Error())
	}
	t.mu.Lock()
	t.state.stale = err != nil
	t.mu.Unlock()
	t.events.add(updates...)
	return err == nil
}

// note appends an event that was not seen before.
func (f *eventFeed) note(updates []*update[api.Event], seen *seenEvents, e *api.Event) []*update[api.Event] {
	if !seen.add(e) {
		return updates
	}
	u, err := newUpdate(&f.list, e.ID, nil, e)
	if err != nil { // a struct of texts always marshals
		return updates
	}
	return append(updates, u)
}

// pollInterval is how long to wait for a report that there may be new events; 0: without limit. all says that the last
// read was for late ones as well, so that nothing reported before is overlooked. looked is when one last was.
func pollInterval(reported, all bool, looked time.Time) time.Duration {
	switch {
	case !reported:
		return eventIdle
	case !all:
		return max(latePace-time.Since(looked), time.Millisecond)
	default:
		return 0
	}
}

// sleepOrChange waits until changed is closed or d, unless it is 0, is over; false: ctx ended first.
func sleepOrChange(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
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

// seenEvents are the newest events that the feed has seen, in the order of their ids.
type seenEvents struct {
	events []seenEvent
	begin  string // what is before it in the store was there when looking began; empty: nothing was
}

type seenEvent struct {
	id string
	at time.Time
}

// add notes the event and says whether it is new.
func (s *seenEvents) add(e *api.Event) bool {
	i, found := slices.BinarySearchFunc(s.events, e.ID, func(e seenEvent, id string) int {
		return strings.Compare(e.id, id)
	})
	if !found {
		s.events = slices.Insert(s.events, i, seenEvent{e.ID, e.Time.Time})
	}
	return !found
}

// newest is where to look for new ones that are hardly late.
func (s *seenEvents) newest() snapshot.EventQuery {
	if len(s.events) == 0 {
		return snapshot.EventQuery{}
	}
	return snapshot.EventQuery{From: s.events[max(0, len(s.events)-lateEvents)].id}
}

// late is where to look for all that are new: back to lateFor before the newest one, and among lateEvents at least.
func (s *seenEvents) late() snapshot.EventQuery {
	since := s.since()
	switch n := len(s.events); {
	case n < lateEvents:
		return snapshot.EventQuery{} // there are no more
	case s.events[n-lateEvents].at.Before(since):
		return s.newest()
	default:
		return snapshot.EventQuery{From: s.begin, Since: since}
	}
}

// since is the time of the oldest events that are late and no older than that.
func (s *seenEvents) since() time.Time {
	if len(s.events) == 0 {
		return time.Time{}
	}
	return s.events[len(s.events)-1].at.Add(-lateFor)
}

// trim forgets what is not looked at any more.
func (s *seenEvents) trim() {
	since := s.since()
	old := slices.IndexFunc(s.events, func(e seenEvent) bool { return !e.at.Before(since) })
	if extra := min(len(s.events)-lateEvents, old); extra > 0 {
		s.events = slices.Delete(s.events, 0, extra)
	}
}
