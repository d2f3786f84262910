package main

import (
	"context"
	"errors"
	"sync"

	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// guardStore is the store of a guard, opened on first use. There are as many guards as workers, and each writes once at
// most. The worker has set the store up.
type guardStore struct {
	config store.Config

	mu sync.Mutex
	db store.Store
}

func (g *guardStore) open(ctx context.Context) (store.Store, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.db != nil {
		return g.db, nil
	}
	c := g.config
	c.Existing = true
	var err error
	g.db, err = store.Open(ctx, c)
	return g.db, err
}

// markDead marks sessions of the worker dead, with the remote leases that are still open.
func (g *guardStore) markDead(ctx context.Context, sessions []guard.Session) error {
	db, err := g.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range sessions {
		granted := make(map[elect.Key]int64, len(s.Remote))
		for key, left := range s.Remote {
			granted[key] = left.Milliseconds()
		}
		errs = append(errs, elect.MarkDead(ctx, db, s.UUID, granted))
	}
	return errors.Join(errs...)
}
