package status

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
)

const (
	// backlogBytes is how much of what has changed is kept for watchers that are behind, of each list, in bytes.
	backlogBytes = 4 << 20
	// mostChanges is from how many at once on watchers begin again with the whole list: it is shorter, for the list is
	// compressed and made once.
	mostChanges = 2000
	// largeUpdate is from which size on, in bytes, a change is sent as the whole list as well.
	largeUpdate = 64 << 10
	// reusable is how many changes an initial snapshot may be behind. Those who get it are sent these next.
	reusable = 500
)

// topic is one list for all who watch it. What has changed is found and encoded once, however many they are, and
// nothing is done while there are none. Use newTopic.
type topic[T any] struct {
	list    collection[T]
	source  snapshot.Source
	refresh func(context.Context) // has the source look for what it does not follow; nil: it follows all
	initial *initialSnapshots
	shared  shared[subscription[T]]
}

func newTopic[T any](
	list collection[T], source snapshot.Source, refresh func(context.Context), initial *initialSnapshots,
) *topic[T] {
	t := &topic[T]{list: list, source: source, refresh: refresh, initial: initial}
	t.shared = shared[subscription[T]]{start: t.subscribe, work: t.follow, ended: initial.forget}
	return t
}

// subscription is a topic from its first watcher to its last.
type subscription[T any] struct {
	changes *backlog[T]
	changed <-chan struct{} // closed when there is a newer snapshot than the first
	number  int             // of the newest update

	mu sync.Mutex        // held while a snapshot and its changes are noted
	at *snapshot.Cluster // after all changes in the backlog
}

// subscribe begins with the newest snapshot. There must be one.
func (t *topic[T]) subscribe() *subscription[T] {
	s := &subscription[T]{changes: newBacklog[T](backlogBytes), changed: t.source.Changed()}
	s.at = t.source.Snapshot()
	return s
}

// follow takes each snapshot, at most one in watchPace, until ctx ends.
func (t *topic[T]) follow(ctx context.Context, s *subscription[T]) {
	again := time.Duration(0)
	if t.refresh != nil {
		again = mutexAge
	}
	changed := s.changed
	for sleepOrChange(ctx, changed, again) && sleepOrChange(ctx, nil, watchPace) {
		changed = t.source.Changed()
		if t.refresh != nil {
			t.refresh(ctx)
		}
		t.advance(s, t.source.Snapshot())
	}
}

// advance notes what differs in a newer snapshot.
func (t *topic[T]) advance(s *subscription[T], to *snapshot.Cluster) {
	changes := diff(t.list.items(s.at), t.list.items(to), t.list.id, t.list.same)
	updates := make([]*update[T], 0, min(len(changes), mostChanges))
	whole := len(changes) > mostChanges
	for i := 0; i < len(changes) && !whole; i++ {
		s.number++
		u, err := newUpdate(&t.list, strconv.Itoa(s.number), changes[i].before, changes[i].after)
		whole = err != nil || u.size > largeUpdate
		updates = append(updates, u)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = to
	if whole {
		s.changes.restart()
	} else {
		s.changes.add(updates...)
	}
}

// open is the list as a watch with these conditions begins with it.
func (t *topic[T]) open(ctx context.Context, s *subscription[T], q *query) (*initialSnapshot, error) {
	usable := func(o *initialSnapshot) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return o.stale == s.at.Status.Stale && s.changes.holds(o.next, reusable)
	}
	return t.initial.get(ctx, conditions{
		subscription: s, scope: q.scope, hidden: q.hidden, public: q.public && !q.all(),
	}, usable, func() (*initialSnapshot, error) {
		s.mu.Lock()
		at, made := s.at, &initialSnapshot{next: s.changes.end(), stale: s.at.Status.Stale}
		s.mu.Unlock()
		return made, made.pack(strconv.Itoa(made.next), t.list.beginning(at, q))
	})
}

// watch sends the list and then each change of it. A watcher that is too far behind is sent the whole list again.
func (t *topic[T]) watch(w *watchers, out *stream, q *query) error {
	s, leave := t.shared.join(out.ctx)
	defer leave()
	for {
		o, err := t.open(out.ctx, s, q)
		if err != nil {
			return err
		}
		if err := w.begin(out, o); err != nil {
			return err
		}
		if err := s.changes.send(out, q, o.next, nil); !errors.Is(err, errBehind) {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		if err := out.wait(nil, watchPace); err != nil {
			return err
		}
	}
}
