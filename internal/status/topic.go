package status

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
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
	// updateBatch is how many changes a watcher takes at once. While it does not read, it keeps them.
	updateBatch = 32
)

// topic is one list for all who watch it. What has changed is found and encoded once, however many they are, and
// nothing is done while there are none.
type topic[T any] struct {
	list collection[T]

	source  Source
	refresh func(context.Context) // has the source look for what it does not follow; nil: it follows all
	initial *initialSnapshots

	mu           sync.Mutex
	subscription *subscription[T] // nil while there are no watchers
	watchers     int
}

// subscription is a topic from its first watcher to its last.
type subscription[T any] struct {
	changes *backlog[*update[T]]

	stop context.CancelFunc
	done chan struct{} // closed when following has ended

	mu     sync.Mutex        // held while a snapshot and its changes are noted
	at     *snapshot.Cluster // after all changes in the backlog
	number int               // of the newest update
}

// join begins to follow with the first watcher. There must be a snapshot. Call leave at the end.
func (t *topic[T]) join(ctx context.Context) *subscription[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers++; t.subscription == nil {
		// It outlives its first watcher, and ends with the last one.
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // G118: leave calls it
		t.subscription = &subscription[T]{
			changes: newBacklog[*update[T]](backlogBytes), stop: stop, done: make(chan struct{}),
		}
		changed := t.source.Changed()
		t.subscription.at = t.source.Snapshot()
		go t.follow(ctx, t.subscription, changed)
	}
	return t.subscription
}

// leave ends following with the last watcher.
func (t *topic[T]) leave() {
	t.mu.Lock()
	var last *subscription[T]
	if t.watchers--; t.watchers == 0 {
		last, t.subscription = t.subscription, nil
	}
	t.mu.Unlock()
	if last != nil {
		last.stop()
		<-last.done
		t.initial.forget(last)
	}
}

// follow takes each snapshot, at most one in watchPace, until ctx ends.
func (t *topic[T]) follow(ctx context.Context, s *subscription[T], changed <-chan struct{}) {
	defer close(s.done)
	again := time.Duration(0)
	if t.refresh != nil {
		again = mutexAge
	}
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
	cut := len(changes) > mostChanges
	for i := 0; i < len(changes) && !cut; i++ {
		s.number++
		u := &update[T]{id: strconv.Itoa(s.number), before: copied(changes[i].before), after: copied(changes[i].after)}
		weight, err := u.weight(&t.list)
		cut = err != nil || weight > largeUpdate
		updates = append(updates, u)
	}
	s.mu.Lock()
	s.at = to
	if cut {
		s.changes.cut()
	} else {
		for _, u := range updates {
			weight, _ := u.weight(&t.list) // it is known by now
			s.changes.add(u, weight)
		}
	}
	s.mu.Unlock()
	if len(changes) > 0 {
		s.changes.wake()
	}
}

func copied[T any](item *T) *T {
	if item == nil {
		return nil
	}
	s := *item
	return &s
}

// open is the list as a watch with these conditions begins with it.
func (t *topic[T]) open(ctx context.Context, s *subscription[T], q *query) (*initialSnapshot, error) {
	usable := func(o *initialSnapshot) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return o.stale == s.at.Status.Stale && s.changes.holds(o.next, reusable)
	}
	return t.initial.get(ctx, conditions{
		subscription: s, scope: q.scope, hidden: q.hidden,
	}, usable, func() (*initialSnapshot, error) {
		s.mu.Lock()
		at, made := s.at, &initialSnapshot{next: s.changes.end(), stale: s.at.Status.Stale}
		s.mu.Unlock()
		l, err := t.list.beginning(at, q)
		if err != nil {
			return nil, err
		}
		made.text, err = packEvent(func(b *body) {
			b.text("event: snapshot\nid: ", strconv.Itoa(made.next), "\n")
			l.writeTo(b)
			b.text("\n")
		})
		return made, err
	})
}

// watch sends the list and then each change of it. A watcher that is too far behind is sent the whole list again.
func (t *topic[T]) watch(w *watchers, out *stream, q *query) error {
	s := t.join(out.ctx)
	defer t.leave()
	for {
		o, err := t.open(out.ctx, s, q)
		if err != nil {
			return err
		}
		if err := w.begin(out, o); err != nil {
			return err
		}
		if err := t.sendFrom(s, o.next, out, q); err != nil {
			return err
		}
		if err := out.wait(nil, watchPace); err != nil {
			return err
		}
	}
}

// sendFrom sends changes from a number on, until the watcher is too far behind.
func (t *topic[T]) sendFrom(s *subscription[T], next int, out *stream, q *query) error {
	batch := make([]*update[T], 0, updateBatch)
	for {
		taken, more, ok := s.changes.take(batch[:0], next, updateBatch)
		if !ok {
			return out.flush()
		}
		for _, u := range taken {
			if err := t.send(out, q, u); err != nil {
				return err
			}
		}
		next += len(taken)
		if len(taken) == updateBatch {
			continue
		}
		clear(batch[:cap(batch)]) // what waits keeps no changes
		if err := out.flush(); err != nil {
			return err
		}
		if err := out.wait(more, 0); err != nil {
			return err
		}
	}
}

func (t *topic[T]) send(out *stream, q *query, u *update[T]) error {
	upsert := u.after != nil && t.list.match(q, u.after)
	if !upsert && (u.before == nil || !t.list.match(q, u.before)) {
		return nil
	}
	text, err := u.text(&t.list, upsert, q.hidden)
	if err != nil {
		return err
	}
	return out.text(text)
}

// update is one change of an item, encoded once for all watchers that are sent it.
type update[T any] struct {
	id            string // of the event
	before, after *T     // copies, so that no snapshot is kept; nil: it is not there

	mu    sync.Mutex
	texts [4][]byte // as they were asked for
}

// text is the update as an event of a stream: an upsert of the item as it is, or else a deletion of what it was.
func (u *update[T]) text(c *collection[T], upsert, hidden bool) ([]byte, error) {
	kind, item, at := "upsert", u.after, 0
	if !upsert {
		kind, item, at = "delete", u.before, 2
	}
	if hidden {
		at++
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.texts[at] == nil {
		text, err := framed(kind, u.id, c.show(hidden, item))
		if err != nil {
			return nil, err
		}
		u.texts[at] = text
	}
	return u.texts[at], nil
}

// weight is about how many bytes the update takes. Texts of its items are shared with the snapshots.
func (u *update[T]) weight(c *collection[T]) (int64, error) {
	text, err := u.text(c, u.after != nil, false)
	items := 2 * int64(reflect.TypeFor[T]().Size()) //nolint:gosec // G115: types are small
	return items + 2*int64(len(text)), err
}

// framed is an event of a stream with an object.
func framed(kind, id string, item any) ([]byte, error) {
	data, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len("event: \nid: \ndata: \n\n")+len(kind)+len(id)+len(data))
	text = append(text, "event: "+kind+"\nid: "+id+"\ndata: "...)
	text = append(text, data...)
	return append(text, "\n\n"...), nil
}

// backlog holds the newest of what has changed, in order, for readers that are at different places in it. Changes are
// numbered from 0. Use newBacklog.
type backlog[E any] struct {
	most int64 // bytes

	mu      sync.Mutex
	entries []entry[E]
	first   int   // the number of entries[0]
	size    int64 // bytes
	more    chan struct{}
}

type entry[E any] struct {
	change E
	size   int64 // bytes
}

func newBacklog[E any](most int64) *backlog[E] {
	return &backlog[E]{most: most, more: make(chan struct{})}
}

// add appends a change that takes so many bytes. Where there are too many, the older half goes.
func (b *backlog[E]) add(change E, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, entry[E]{change, size})
	if b.size += size; b.size <= b.most {
		return
	}
	n := 0
	for ; b.size > b.most/2 && n < len(b.entries)-1; n++ {
		b.size -= b.entries[n].size
	}
	b.first += n
	b.entries = slices.Delete(b.entries, 0, n)
}

// cut has all readers who are behind begin again: what has changed is not worth being sent one by one.
func (b *backlog[E]) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first += len(b.entries) + 1 // so that readers at the end are behind, too
	b.entries, b.size = nil, 0
}

// wake has readers look who wait for more.
func (b *backlog[E]) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.more)
	b.more = make(chan struct{})
}

// end is the number of the next change.
func (b *backlog[E]) end() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first + len(b.entries)
}

// holds says whether all changes from that number on are here, and at most so many.
func (b *backlog[E]) holds(next, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return next >= b.first && b.first+len(b.entries)-next <= most
}

// all returns what is here, and the numbers of the first change and of the next one.
func (b *backlog[E]) all() (changes []E, first, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes = make([]E, len(b.entries))
	for i, e := range b.entries {
		changes[i] = e.change
	}
	return changes, b.first, b.first + len(b.entries)
}

// take appends some of the changes from number next on, and returns a channel that is closed when there may be more.
// false: the reader is too far behind, and what it would have to be sent next is not here any more.
func (b *backlog[E]) take(batch []E, next, most int) ([]E, <-chan struct{}, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next < b.first {
		return batch, nil, false
	}
	from := next - b.first
	for _, e := range b.entries[from:min(len(b.entries), from+most)] {
		batch = append(batch, e.change)
	}
	return batch, b.more, true
}
