package status

import (
	"errors"
	"sync"
)

// errSlow is why a watcher is dropped that has not read a list for too long. It may come again.
var errSlow = errors.New("the watcher reads too slowly: the list that it is sent is too old to be kept")

// leastBudget is the memory that lists may take together while slow watchers are sent them, in bytes. Where one list is
// large it is budgetFactor times the newest one, so that there is always some time to read it.
const (
	leastBudget  = 32 << 20
	budgetFactor = 4
)

// budget bounds the memory that all watchers together keep alive. Each keeps the opening that it is being sent. Many
// share one; slow ones that came at different times may each keep another one. Use newBudget.
type budget struct {
	least int64

	mu   sync.Mutex
	kept map[*opening]*keeping
	made int
}

// keeping is who keeps an opening.
type keeping struct {
	made int // in which order openings came to be kept
	by   map[*stream]bool
}

func newBudget(least int64) *budget { return &budget{least: least, kept: map[*opening]*keeping{}} }

// keep notes that out is being sent o. Watchers with the oldest openings are dropped until what is kept is within the
// budget. What the newest one takes is not counted.
func (b *budget) keep(out *stream, o *opening) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[o] == nil {
		b.made++
		b.kept[o] = &keeping{made: b.made, by: map[*stream]bool{}}
	}
	b.kept[o].by[out] = true
	b.enforce(max(b.least, budgetFactor*o.size()))
}

// done notes that out has been sent o, or never will be.
func (b *budget) done(out *stream, o *opening) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[o]
	if k == nil {
		return
	}
	if delete(k.by, out); len(k.by) == 0 {
		delete(b.kept, o)
	}
}

func (b *budget) enforce(limit int64) {
	for {
		var total int64
		var oldest, newest *opening
		for o, k := range b.kept {
			total += o.size()
			if oldest == nil || k.made < b.kept[oldest].made {
				oldest = o
			}
			if newest == nil || k.made > b.kept[newest].made {
				newest = o
			}
		}
		if len(b.kept) < 2 || total-newest.size() <= limit {
			return
		}
		for out := range b.kept[oldest].by {
			out.drop(errSlow)
		}
		delete(b.kept, oldest)
	}
}

// idle says whether nothing is kept.
func (b *budget) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.kept) == 0
}
