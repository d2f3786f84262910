package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// openToRun opens a store that tasks may run on. Electors look as well, before their first claim; this is where people
// are informed.
func openToRun(ctx context.Context, c store.Config) (store.Store, error) {
	db, err := store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := record.CheckMoved(ctx, db); err != nil {
		_ = db.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%s: %w", shownStore(c), err)
	}
	return db, nil
}

// hooked is the store that this program works with. A build for tests can have it write what a later version might.
var hooked = func(db store.Store) store.Store { return db }

const (
	openTry    = 5 * time.Second // one try to open the store
	openPause  = 200 * time.Millisecond
	openPauses = 5 * time.Second // at most between two tries
)

// waitForStore opens the store, trying again for as long as limit says while it is unreachable; with limit 0 it tries
// once. failed is called with each failure and when the next try is.
func waitForStore(
	ctx context.Context, limit time.Duration, open func(context.Context) (store.Store, error),
	failed func(err error, next time.Duration),
) (store.Store, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for pause := openPause; ; pause = min(2*pause, openPauses) {
		db, err := openOnce(ctx, open)
		switch {
		case err == nil:
			return db, nil
		case limit == 0 || !errors.Is(err, store.ErrUnavailable):
			return nil, err
		}
		if ctx.Err() == nil {
			failed(err, pause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("the store was not reached within %v: %w", limit, err)
			}
			return nil, context.Cause(ctx)
		}
	}
}

func openOnce(ctx context.Context, open func(context.Context) (store.Store, error)) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	return open(ctx)
}

// obstructs says whether a process keeps all others from writing to the store that the settings name.
func obstructs(s *config.Settings, pid int) bool {
	blocks, err := store.BlocksWriters(s.StoreConfig(logr.Discard()), pid)
	return blocks && err == nil
}
