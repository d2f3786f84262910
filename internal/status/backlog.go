package status

import (
	"slices"
	"sync"
)

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
