package status

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
)

// shared is what all watchers of one thing have in common. It is made for the first of them and ends with the last.
type shared[S any] struct {
	start func() *S
	work  func(ctx context.Context, s *S) // until ctx ends
	ended func(s any)

	mu    sync.Mutex
	users int
	now   *S     // nil while there are no users
	stop  func() // ends the work and waits for it
}

// join returns what is shared now, and what to call at the end.
func (h *shared[S]) join(ctx context.Context) (now *S, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users++; h.now == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first user
		s, done := h.start(), make(chan struct{})
		go func() {
			defer close(done)
			h.work(ctx, s)
		}()
		h.now, h.stop = s, func() {
			cancel()
			<-done
			h.ended(s)
		}
	}
	return h.now, h.leave
}

func (h *shared[S]) leave() {
	stop := func() {}
	h.mu.Lock()
	if h.users--; h.users == 0 {
		stop, h.stop, h.now = h.stop, nil, nil
	}
	h.mu.Unlock()
	stop()
}

// update is one change of an item, encoded once for all watchers that are sent it.
type update[T any] struct {
	list          *collection[T]
	id            string // of the event
	before, after *T     // copies, so that no snapshot is kept; nil: it is not there
	size          int64  // about how many bytes it takes

	mu    sync.Mutex
	texts [4][]byte // as they were asked for
}

// newUpdate is the change of an item from before to after, of which one is nil where it is not there.
func newUpdate[T any](list *collection[T], id string, before, after *T) (*update[T], error) {
	u := &update[T]{list: list, id: id, before: copied(before), after: copied(after)}
	text, err := u.text(after != nil, false)
	// Texts of its items are shared with the snapshots.
	u.size = 2*int64(reflect.TypeFor[T]().Size()) + 2*int64(len(text)) //nolint:gosec // G115: types are small
	return u, err
}

func copied[T any](item *T) *T {
	if item == nil {
		return nil
	}
	s := *item
	return &s
}

// send writes the change as a watcher with this query sees it: an upsert, a delete, or nothing.
func (u *update[T]) send(out *stream, q *query) error {
	upsert := u.after != nil && u.list.match(q, u.after)
	if !upsert && (u.before == nil || !u.list.match(q, u.before)) {
		return nil
	}
	text, err := u.text(upsert, q.hidden)
	if err != nil {
		return err
	}
	return out.text(text)
}

// text is the update as an event of a stream: an upsert of the item as it is, or else a deletion of what it was.
func (u *update[T]) text(upsert, hidden bool) ([]byte, error) {
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
		data, err := json.Marshal(u.list.show(hidden, item))
		if err != nil {
			return nil, err
		}
		u.texts[at] = slices.Concat([]byte("event: "+kind+"\nid: "+u.id+"\ndata: "), data, []byte("\n\n"))
	}
	return u.texts[at], nil
}

// updateBatch is how many changes a watcher takes at once. While it does not read, it keeps them.
const updateBatch = 32

// errBehind is why a watcher is not sent the next changes. Watchers of events are dropped for it.
var errBehind = errors.New("the watcher is behind what is kept: it reads too slowly, or the store was unreachable " +
	"when the watch began")

// backlog holds the newest of what has changed, in order, for readers that are at different places in it. Changes are
// numbered, each one higher than the last. Use newBacklog.
type backlog[T any] struct {
	most int64 // bytes

	mu      sync.Mutex
	changes []*update[T]
	first   int   // the number of changes[0]
	size    int64 // bytes
	more    chan struct{}
}

func newBacklog[T any](most int64) *backlog[T] {
	return &backlog[T]{most: most, more: make(chan struct{})}
}

// add appends changes and wakes readers.
func (b *backlog[T]) add(changes ...*update[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(changes) > 0 {
		b.append(changes)
	}
}

// restart replaces all changes, and has all readers begin again: what they have not read is not worth being sent one
// by one, or not known.
func (b *backlog[T]) restart(changes ...*update[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first += len(b.changes) + 1 // so that readers at the end are behind, too
	b.changes, b.size = nil, 0
	b.append(changes)
}

// append drops the older half of the changes whenever there are too many.
func (b *backlog[T]) append(changes []*update[T]) {
	for _, u := range changes {
		b.changes = append(b.changes, u)
		if b.size += u.size; b.size <= b.most {
			continue
		}
		n := 0
		for ; b.size > b.most/2 && n < len(b.changes)-1; n++ {
			b.size -= b.changes[n].size
		}
		b.first += n
		b.changes = slices.Delete(b.changes, 0, n)
	}
	close(b.more)
	b.more = make(chan struct{})
}

// end is the number of the next change.
func (b *backlog[T]) end() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first + len(b.changes)
}

// holds says whether all changes from that number on are here, and at most so many.
func (b *backlog[T]) holds(next, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return next >= b.first && b.first+len(b.changes)-next <= most
}

// all returns what is here, and the numbers of the first change and of the next one.
func (b *backlog[T]) all() (changes []*update[T], first, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.changes), b.first, b.first + len(b.changes)
}

// take appends some of the changes from number next on, and returns a channel that is closed when there may be more.
// false: what the reader would have to be sent next is not here any more.
func (b *backlog[T]) take(batch []*update[T], next, most int) ([]*update[T], <-chan struct{}, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next < b.first {
		return batch, nil, false
	}
	from := next - b.first
	return append(batch, b.changes[from:min(len(b.changes), from+most)]...), b.more, true
}

// send sends the changes from number next on as they come, but for those of known ids. It returns errBehind when the
// watcher is too far behind.
func (b *backlog[T]) send(out *stream, q *query, next int, known map[string]bool) error {
	batch := make([]*update[T], 0, updateBatch)
	for {
		taken, more, ok := b.take(batch[:0], next, updateBatch)
		if !ok {
			return errBehind
		}
		for _, u := range taken {
			if known[u.id] {
				continue
			}
			if err := u.send(out, q); err != nil {
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
