package elect

import (
	"context"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// revClock is the clock of new revisions: the largest time that a reply of the store has told, in Unix ms. It is never carried on
// locally, so no revision is ever ahead of the store; 0 before the first reply, and nothing is written then.
type revClock struct{ ms atomic.Int64 }

func (c *revClock) now() int64 { return c.ms.Load() }

func (c *revClock) learn(now int64) {
	for {
		known := c.ms.Load()
		if now <= known || c.ms.CompareAndSwap(known, now) {
			return
		}
	}
}

// timedStore is a store whose replies set clocks.
type timedStore struct {
	store.Store
	learn func(now int64)
}

func (s timedStore) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	res, err := s.Store.Read(ctx, kind, ids...)
	if err == nil {
		s.learn(res.Now)
	}
	return res, err
}

func (s timedStore) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	res, err := s.Store.List(ctx, kind, q)
	if err == nil {
		s.learn(res.Now)
	}
	return res, err
}
