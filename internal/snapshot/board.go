package snapshot

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/pkg/api"
)

// Source is where the newest snapshot is found. Both methods are called from many goroutines and never block.
type Source interface {
	// Snapshot is the newest one, nil before the first.
	Snapshot() *Cluster
	// Changed returns a channel that is closed when a newer snapshot than that of this moment is there. Ask for the
	// channel first, then for the snapshot: then none is missed.
	Changed() <-chan struct{}
}

// EventSource reads what happened lately.
type EventSource interface {
	// Events returns those that match. It may ask the store and fail when that is unreachable.
	Events(ctx context.Context, q EventQuery) ([]api.Event, error)
	// EventsChanged returns a channel that is closed once new events can be read; nil: not known, they are looked for
	// every few seconds. Ask for the channel first, then for the events.
	EventsChanged() <-chan struct{}
}

// RunSource reads the last runs of a task, the newest first. It may ask the store and fail when that is unreachable.
type RunSource interface {
	Runs(ctx context.Context, key string) ([]api.Run, error)
}

// MutexSource reads the locks of programs: mutexes, read-write locks and semaphores that are held, waited for or kept.
// The order is any, and the caller may change the list. It asks the store and fails when that is unreachable.
type MutexSource interface {
	Mutexes(ctx context.Context) ([]api.Lock, error)
}

// StoreSource is what is read from a store each time that it is asked for.
type StoreSource interface {
	EventSource
	RunSource
	MutexSource
}

// Board is a [Source]: it holds the newest snapshot for all who read it. The zero value is ready. It may be used from
// many goroutines.
type Board struct {
	mu      sync.Mutex
	newest  *Cluster
	version uint64
	changed chan struct{}
}

// Publish makes s the newest snapshot and wakes those who wait. The board sets s.Version; after that s is not changed,
// nor anything that it refers to.
func (b *Board) Publish(s *Cluster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	s.Version = b.version
	b.newest = s
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Snapshot implements [Source].
func (b *Board) Snapshot() *Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

// Changed implements [Source].
func (b *Board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}
