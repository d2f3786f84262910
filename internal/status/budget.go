package status

import (
	"errors"
	"reflect"
	"sync"
)

// errSlow is why a watcher is dropped whose old snapshot takes too much memory. It may come again.
var errSlow = errors.New("the watcher reads too slowly: what it was sent last is too old to be kept")

// leastBudget is the memory that snapshots kept for slow watchers may take together, in bytes. Where one snapshot is
// large it is budgetFactor times the newest one, so that there is always some time to read it.
const (
	leastBudget  = 64 << 20
	budgetFactor = 4
)

// budget bounds the memory that all watchers together keep alive. Each keeps the snapshot that it was sent last, to see
// what has changed since. Watchers that keep up share the newest one; each that is slow may keep another one.
type budget struct {
	least int64

	mu   sync.Mutex
	kept map[content]*keeping
}

// content distinguishes the large parts of snapshots: while nothing changes one snapshot shares them with the next.
type content struct {
	task *Task
	lock *Lock
}

// keeping is who keeps a content.
type keeping struct {
	version uint64
	size    int64 // bytes
	by      map[*stream]bool
}

func newBudget(least int64) *budget { return &budget{least: least, kept: map[content]*keeping{}} }

// keep notes that out keeps these snapshots and no others, the newest last. Watchers with the oldest snapshots are
// dropped until what is kept is within the budget. What the newest one takes is not counted: it is there anyway.
func (b *budget) keep(out *stream, snapshots ...*Snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, k := range b.kept {
		if delete(k.by, out); len(k.by) == 0 {
			delete(b.kept, id)
		}
	}
	var newest *keeping
	for _, s := range snapshots {
		if s == nil {
			continue
		}
		k := b.kept[s.content()]
		if k == nil {
			k = &keeping{version: s.Version, size: s.size(), by: map[*stream]bool{}}
			b.kept[s.content()] = k
		}
		k.by[out] = true
		newest = k
	}
	if newest != nil {
		b.enforce(max(b.least, budgetFactor*newest.size))
	}
}

func (b *budget) enforce(limit int64) {
	for {
		var total int64
		var oldest, newest *keeping
		for _, k := range b.kept {
			total += k.size
			if oldest == nil || k.version < oldest.version {
				oldest = k
			}
			if newest == nil || k.version > newest.version {
				newest = k
			}
		}
		if len(b.kept) < 2 || total-newest.size <= limit {
			return
		}
		for out := range oldest.by {
			out.drop(errSlow)
		}
		for id, k := range b.kept {
			if k == oldest {
				delete(b.kept, id)
			}
		}
	}
}

// idle says whether nothing is kept.
func (b *budget) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.kept) == 0
}

func (s *Snapshot) content() content {
	var c content
	if len(s.Tasks) > 0 {
		c.task = &s.Tasks[0]
	}
	if len(s.Locks) > 0 {
		c.lock = &s.Locks[0]
	}
	return c
}

var taskSize, lockSize = int64(reflect.TypeFor[Task]().Size()), int64(reflect.TypeFor[Lock]().Size())

// size is about how much memory the large parts take, in bytes; texts are shared with the settings and the store's
// cache.
func (s *Snapshot) size() int64 {
	return int64(len(s.Tasks))*taskSize + int64(len(s.Locks))*lockSize
}
