package status

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Snapshot is all that one replica knows of the cluster at a moment. It is shared between goroutines and never
// changed after it was published. Tasks and Locks are in order of key, Instances of name and then session, Overrides of
// kind, scope and name: [Snapshot.Sort] sees to it.
type Snapshot struct {
	// Version rises with every snapshot that one [Board] publishes; the board sets it.
	Version uint64

	Status    api.Status
	Tasks     []api.Task
	Instances []api.Instance
	Locks     []api.Lock     // those of programs may be missing: see [Config.Mutexes]
	Overrides []api.Override // that still count, also of what is not declared
}

// Sort puts every list into the order that the API promises. The maker of a snapshot calls it before publishing.
func (s *Snapshot) Sort() {
	slices.SortFunc(s.Tasks, func(a, b api.Task) int { return compare(a.Key, b.Key) })
	slices.SortFunc(s.Locks, func(a, b api.Lock) int { return compare(lockID(&a), lockID(&b)) })
	slices.SortFunc(s.Instances, func(a, b api.Instance) int { return compare(instanceID(&a), instanceID(&b)) })
	slices.SortFunc(s.Overrides, func(a, b api.Override) int { return compare(overrideID(&a), overrideID(&b)) })
	slices.SortFunc(s.Status.Groups, func(a, b api.Group) int { return compare(a.Name, b.Name) })
	SortProblems(s.Status.Problems)
}

// Task is the one with that key, nil when there is none. The snapshot is in order.
func (s *Snapshot) Task(key string) *api.Task {
	i, found := slices.BinarySearchFunc(
		s.Tasks, key, func(t api.Task, key string) int { return cmp.Compare(t.Key, key) },
	)
	if !found {
		return nil
	}
	return &s.Tasks[i]
}

// Group is the one with that name, nil when there is none. The snapshot is in order.
func (s *Snapshot) Group(name string) *api.Group {
	i, found := slices.BinarySearchFunc(
		s.Status.Groups, name, func(g api.Group, name string) int { return cmp.Compare(g.Name, name) },
	)
	if !found {
		return nil
	}
	return &s.Status.Groups[i]
}

// Instance is the one with that name, nil when there is none. Of several sessions it is the one that takes part most,
// and of those the newest.
func (s *Snapshot) Instance(name string) *api.Instance {
	var best *api.Instance
	for i := range s.Instances {
		c := &s.Instances[i]
		if c.Name != name {
			continue
		}
		if best == nil || stateRank(c.State) < stateRank(best.State) ||
			c.State == best.State && c.StartedAt.After(best.StartedAt.Time) {
			best = c
		}
	}
	return best
}

func stateRank(s api.InstanceState) int {
	switch s {
	case api.Live:
		return 0
	case api.Draining:
		return 1
	case api.Left:
		return 2
	default:
		return 3
	}
}

// instanceID distinguishes the sessions of one name.
func instanceID(i *api.Instance) string { return i.Name + "\x00" + i.Session }

func compare(a, b string) int { return strings.Compare(a, b) }

// Source is where the newest snapshot is found. Both methods are called from many goroutines and never block.
type Source interface {
	// Snapshot is the newest one, nil before the first.
	Snapshot() *Snapshot
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

// EventQuery selects events. Conditions add up.
type EventQuery struct {
	Group       string    // only of this group; empty: any
	From        string    // only ids >= From; empty: no bound
	To          string    // only ids < To; empty: no bound
	Since       time.Time // only at or after this moment; zero: no bound
	Limit       int       // at most so many, at least 1
	OldestFirst bool      // else newest first
}

// LogSource holds what tasks of this replica wrote lately.
type LogSource interface {
	// Output returns what is kept of the task; false: it is not held here, and nothing of it is kept. The caller may
	// change the lines.
	Output(key string) (tasks.Output, bool)
}

// Board is a [Source]: it holds the newest snapshot for all who read it. The zero value is ready. It may be used from
// many goroutines.
type Board struct {
	mu      sync.Mutex
	newest  *Snapshot
	version uint64
	changed chan struct{}
}

// Publish makes s the newest snapshot and wakes those who wait. The board sets s.Version; after that s is not changed,
// nor anything that it refers to.
func (b *Board) Publish(s *Snapshot) {
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
func (b *Board) Snapshot() *Snapshot {
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
