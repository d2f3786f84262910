package status

import (
	"context"
	"errors"
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
	// recentEvents is how many of those that were seen last are remembered. A watcher that is further behind is dropped: it
	// comes again and goes on after the last event that it has seen.
	recentEvents = 5000
)

// eventFeed looks for new events on behalf of all watchers, and only while there are any. What it has seen it
// remembers, so that a watcher that comes later needs no look of its own. While nothing happens it does not look, where
// the source reports new events.
//
// It is no topic. Stores number the revisions of one document, and nothing across documents: so no number says which
// events a reader has, and one with an older id may appear after a newer one.
type eventFeed struct {
	log     eventLog
	changed func() <-chan struct{}
	logger  logr.Logger

	mu       sync.Mutex
	watchers int
	now      *eventTail // nil while there are no watchers
	stop     func()     // ends looking for more and waits for it
}

func newEventFeed(source snapshot.EventSource, lists *pace, logger logr.Logger) *eventFeed {
	f := &eventFeed{
		log:     eventLog{source: source, pace: lists},
		changed: func() <-chan struct{} { return nil }, logger: logger,
	}
	if source != nil {
		f.changed = source.EventsChanged
	}
	return f
}

// join returns what is read for all watchers, and what to call at the end. The first of them begins it.
func (f *eventFeed) join(ctx context.Context) (*eventTail, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers++; f.now == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first watcher
		t, done := newEventTail(), make(chan struct{})
		go func() {
			defer close(done)
			f.poll(ctx, t)
		}()
		f.now, f.stop = t, func() {
			cancel()
			<-done
		}
	}
	return f.now, f.leave
}

func (f *eventFeed) leave() {
	stop := func() {}
	f.mu.Lock()
	if f.watchers--; f.watchers == 0 {
		stop, f.stop, f.now = f.stop, nil, nil
	}
	f.mu.Unlock()
	stop()
}

// errBehind is why a watcher of events is dropped.
var errBehind = errors.New("the watcher is behind what is kept: it reads too slowly, or the store was unreachable " +
	"when the watch began")

// watch sends the newest events, or those since the one that the reader saw last, and then each new one.
func (f *eventFeed) watch(out *stream, q *query, now func() time.Time) error {
	t, leave := f.join(out.ctx)
	defer leave()
	if err := out.wait(t.looked, 0); err != nil {
		return err
	}
	next, sent, err := f.catchUp(out, t, q, now())
	for err == nil {
		var more <-chan struct{}
		var events []api.Event
		if events, more, err = t.since(next); err != nil {
			break
		}
		next += len(events)
		for i := range events {
			if !sent[events[i].ID] {
				sendEvent(out, q, &events[i])
			}
		}
		if err = out.flush(); err == nil {
			err = out.wait(more, 0)
		}
	}
	return err
}

// sendEvent writes the event, if the query asks for it.
func sendEvent(out *stream, q *query, e *api.Event) {
	if matchEvent(q, e) {
		out.event("upsert", e.ID, shownEvent(e, q.hidden))
	}
}

// catchUp sends what was before. It returns the number of the next event in the tail, and the ids of those that may
// come again.
func (f *eventFeed) catchUp(
	out *stream, t *eventTail, q *query, now time.Time,
) (next int, sent map[string]bool, err error) {
	if out.last != "" {
		if next, ok := t.after(out.last); ok {
			return next, nil, nil
		}
		next = t.end()
		if f.log.knows(out.ctx, out.last, q.public) {
			sent, err = f.sendSince(out, q)
			return next, sent, err
		}
	}
	list, next, sent, err := f.newest(out, t, q, now)
	if err != nil {
		return 0, nil, err
	}
	id := "none"
	if len(list.Items) > 0 {
		id = list.Items[0].ID
	}
	return next, sent, out.list(func() (string, lines) { return id, listLines(each(list.Items), "", list.Stale) })
}

// sendSince sends what the store has after the last event that the reader saw.
func (f *eventFeed) sendSince(out *stream, q *query) (map[string]bool, error) {
	sent := map[string]bool{out.last: true}
	err := f.log.since(out.ctx, snapshot.EventQuery{From: out.last}, q.public, func(e *api.Event) error {
		if !sent[e.ID] {
			sent[e.ID] = true
			sendEvent(out, q, e)
		}
		return out.body.err
	})
	return sent, err
}

// newest are the events that a watch begins with: from memory, where that is enough. sent are the ids of those that may
// come again.
func (f *eventFeed) newest(
	out *stream, t *eventTail, q *query, now time.Time,
) (list api.List[api.Event], next int, sent map[string]bool, err error) {
	if list, next, ok := t.newest(q); ok {
		return list, next, nil, nil
	}
	if err := out.wait(out.share.reads, 0); err != nil {
		return list, 0, nil, err
	}
	defer out.share.reads.give()
	next = t.end() // what is written from now on comes as a change, and may be in the list as well
	if list, err = f.log.page(out.ctx, q, now, watchPatience); err != nil {
		list = f.log.stale(q)
	}
	list.Continue, sent = "", make(map[string]bool, len(list.Items))
	for i := range list.Items {
		sent[list.Items[i].ID] = true
	}
	return list, next, sent, nil
}

// eventTail is what was read of the store's events, from the first watcher to the last. It begins with the newest events of
// the store; the others are in the order in which they were seen. Events are numbered in this order.
type eventTail struct {
	looked chan struct{} // closed after the first look

	mu     sync.Mutex
	events []api.Event
	first  int           // the number of events[0]
	more   chan struct{} // closed when there are more
	state  tailState
}

// tailState is what is known of the store.
type tailState struct {
	known bool // the newest events were read, which the tail begins with
	only  bool // there were no others in the store
	begin int  // the number of the first of them
	stale bool // the store did not answer last
}

func newEventTail() *eventTail {
	return &eventTail{looked: make(chan struct{}), more: make(chan struct{})}
}

// restart has the tail begin anew with the newest events. Who watches already begins again, since there may be others
// between these and those that it has.
func (t *eventTail) restart(newest []api.Event, state tailState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = state
	if !state.known {
		return
	}
	t.first += len(t.events) + 1 // so that readers at the end are behind, too
	t.state.begin = t.first
	t.events = newest
	t.wake()
}

// add appends events that were seen, and drops the older half of those remembered whenever there are too many.
func (t *eventTail) add(seen []api.Event, stale bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.stale = stale
	if len(seen) == 0 {
		return
	}
	if t.events = append(t.events, seen...); len(t.events) > recentEvents {
		n := len(t.events) - recentEvents/2
		t.first += n
		t.events = slices.Clone(t.events[n:])
	}
	t.wake()
}

func (t *eventTail) wake() {
	close(t.more)
	t.more = make(chan struct{})
}

// end is the number of the next event.
func (t *eventTail) end() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first + len(t.events)
}

// since are the events from that number on, and a channel that is closed when there are more. With errBehind they are
// not remembered any more.
func (t *eventTail) since(next int) ([]api.Event, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next < t.first {
		return nil, nil, errBehind
	}
	return slices.Clip(t.events[next-t.first:]), t.more, nil // what follows is appended, and nothing is changed
}

// after is the number of what was seen after that event, older ones that were late included; false: it is not
// remembered.
func (t *eventTail) after(id string) (next int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.events, func(e api.Event) bool { return e.ID == id })
	return t.first + i + 1, i >= 0
}

// newest is the list that the query asks for, and the number of the event after it; false: there may be more in the
// store that belongs to it.
func (t *eventTail) newest(q *query) (list api.List[api.Event], next int, ok bool) {
	t.mu.Lock()
	state, all, first := t.state, t.events, t.first
	t.mu.Unlock()
	list.Stale = state.stale
	older := len(all) > 0 && all[0].Time.Before(q.since) // than the query asks for
	for i := range all {
		if matchEvent(q, &all[i]) {
			list.Items = append(list.Items, *shownEvent(&all[i], q.hidden))
		}
	}
	slices.SortFunc(list.Items, func(a, b api.Event) int { return strings.Compare(b.ID, a.ID) })
	enough := len(list.Items) >= q.limit
	list.Items = list.Items[:min(len(list.Items), q.limit)]
	return list, first + len(all), state.known && (enough || older || state.only && first == state.begin)
}

// poll adds new events to the tail until ctx ends.
func (f *eventFeed) poll(ctx context.Context, t *eventTail) {
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

// begin reads the newest events; false: the store does not answer.
func (f *eventFeed) begin(ctx context.Context, t *eventTail, seen *seenEvents) bool {
	newest, err := f.log.read(ctx, snapshot.EventQuery{Limit: eventBatch})
	if err != nil {
		t.restart(nil, tailState{stale: true})
		return false
	}
	var events []api.Event
	for i := range slices.Backward(newest) {
		if seen.add(&newest[i]) {
			events = append(events, newest[i])
		}
	}
	if len(newest) == eventBatch {
		seen.begin = newest[eventBatch-1].ID
	}
	t.restart(events, tailState{known: true, only: seen.begin == ""})
	return true
}

// look adds the new events that the query selects; false: the store does not answer.
func (f *eventFeed) look(ctx context.Context, t *eventTail, seen *seenEvents, q snapshot.EventQuery) bool {
	var events []api.Event
	err := f.log.since(ctx, q, false, func(e *api.Event) error {
		if seen.add(e) {
			events = append(events, *e)
		}
		return nil
	})
	if err == nil {
		seen.trim()
	} else if ctx.Err() == nil {
		f.logger.V(1).Info("New events cannot be read: trying again", "error", err.Error())
	}
	t.add(events, err != nil)
	return err == nil
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
