package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Events implements [snapshot.EventSource]: it asks the store.
func (r *Replica) Events(ctx context.Context, q snapshot.EventQuery) (list []api.Event, err error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list events: %w", elect.ErrUnavailable)
	}
	defer r.timed("events", &err)()
	return view.Events(ctx, n.store, q)
}

// Runs implements [snapshot.RunSource]: it asks the store for those that are over. What goes on now is in the lock.
func (r *Replica) Runs(ctx context.Context, key string) ([]api.Run, error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list runs: %w", elect.ErrUnavailable)
	}
	return view.Runs(ctx, n.store, r.Settings(), n.cluster.View(), elect.Key(key))
}

// Mutexes implements [snapshot.MutexSource]: it asks the store.
func (r *Replica) Mutexes(ctx context.Context) (list []api.Lock, err error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list mutexes: %w", elect.ErrUnavailable)
	}
	defer r.timed("mutexes", &err)()
	return view.Mutexes(ctx, n.store, n.cluster.View())
}

// timed begins to time what the API asks of the store, and returns what ends it.
func (r *Replica) timed(op string, err *error) (end func()) {
	begin := time.Now()
	return func() {
		result := "ok"
		if *err != nil {
			result = "error"
		}
		r.cfg.Metrics.StoreOp(op, result, time.Since(begin))
	}
}

// EventsChanged implements [snapshot.EventSource]. Replicas count in the store that they have written events, so no one
// has to look for them.
func (r *Replica) EventsChanged() <-chan struct{} { return r.newEvents.wait() }

// Output returns what is kept of the output of a task that this replica holds; false: of this one nothing is.
func (r *Replica) Output(key string) (taskrun.Output, bool) {
	n := r.node.Load()
	if n == nil {
		return taskrun.Output{}, false
	}
	return n.tasks.Output(elect.Key(key))
}

// signal wakes all who wait for news. The zero value is ready. It may be used from many goroutines.
type signal struct {
	mu   sync.Mutex
	next chan struct{} // closed by wake; nil while no one waits
}

// wake reports that there is news. It does not block.
func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// wait returns a channel that the next wake closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}
