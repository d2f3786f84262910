package engine

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
)

// named are the locks that notifications have named without showing them, as those of Redis and of a quorum do. They
// are read together, one request at a time: many are reserved at once when a replica leaves.
type named struct {
	locks   []string
	reading bool
}

// lockNamed has a lock read that a notification has named. It costs one request, where a look at all that has changed
// takes several, one after the other.
func (e *Engine) lockNamed(id string) { e.named.locks = append(e.named.locks, id) }

// readNamed reads those that were named since the last request. What cannot be read is looked for.
func (e *Engine) readNamed() {
	if e.named.reading || len(e.named.locks) == 0 {
		return
	}
	all := slices.Compact(slices.Sorted(slices.Values(e.named.locks)))
	ids := all[:min(len(all), store.MaxBatch)]
	e.named = named{locks: all[len(ids):], reading: true}
	e.read(ReadRequest{Kind: store.KindLock, IDs: ids}, func(a Answer) {
		e.named.reading = false
		for _, lock := range a.Locks {
			if a.Err == nil && lock != nil {
				e.cache.Put(lock)
			} else {
				e.cache.Look()
			}
		}
	})
}
