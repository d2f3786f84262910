package replica

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// storeReads is a [snapshot.StoreSource] of what the API asks of a replica's store, each time anew.
type storeReads struct {
	node      *atomic.Pointer[node] // nil before there is a store
	settings  *settingsInForce
	metrics   Metrics
	newEvents signal
}

// Events implements [snapshot.EventSource].
func (r *storeReads) Events(ctx context.Context, q snapshot.EventQuery) (list []api.Event, err error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list events: %w", elect.ErrUnavailable)
	}
	defer r.timed("events", &err)()
	return view.Events(ctx, n.store, q)
}

// Runs implements [snapshot.RunSource] for those that are over. What goes on now is in the lock.
func (r *storeReads) Runs(ctx context.Context, key string) ([]api.Run, error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list runs: %w", elect.ErrUnavailable)
	}
	return view.Runs(ctx, n.store, r.settings.get(), n.cluster.View(), elect.Key(key))
}

// Mutexes implements [snapshot.MutexSource].
func (r *storeReads) Mutexes(ctx context.Context) (list []api.Lock, err error) {
	n := r.node.Load()
	if n == nil {
		return nil, fmt.Errorf("list mutexes: %w", elect.ErrUnavailable)
	}
	defer r.timed("mutexes", &err)()
	return view.Mutexes(ctx, n.store, n.cluster.View())
}

// timed begins to time what the API asks of the store, and returns what ends it.
func (r *storeReads) timed(op string, err *error) (end func()) {
	begin := time.Now()
	return func() {
		result := "ok"
		if *err != nil {
			result = "error"
		}
		r.metrics.StoreOp(op, result, time.Since(begin))
	}
}

// EventsChanged implements [snapshot.EventSource]. Replicas count in the store that they have written events, so no one
// has to look for them.
func (r *storeReads) EventsChanged() <-chan struct{} { return r.newEvents.wait() }
