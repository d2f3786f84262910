package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// offline shows what the store says, without a replica.
func offline(ctx context.Context, paths []string) (found *status.Snapshot, err error) {
	err = reading(ctx, paths, func(s *config.Settings, db store.Store) error {
		found, err = replica.Look(ctx, s, db, version)
		return err
	})
	return found, err
}

// past shows what the store keeps of events and runs, without a replica.
func past(ctx context.Context, paths []string, use func(status.StoreSource) error) error {
	return reading(ctx, paths, func(s *config.Settings, db store.Store) error {
		return use(replica.NewPast(s, db))
	})
}

// reading opens the store for as long as use goes on. An empty one looks as if no task had ever run: nothing is made.
func reading(ctx context.Context, paths []string, use func(*config.Settings, store.Store) error) error {
	s, err := load(paths)
	if err != nil {
		return err
	}
	c := replica.StoreConfig(s, logr.Discard())
	c.Existing = true
	db, err := store.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return use(s, db)
}

// changeStore carries a request out on the store, without a replica.
func changeStore(
	ctx context.Context, paths []string, r operate.Request, about func(*status.Snapshot) ([]string, error),
	preview bool,
) (api.ChangeResult, error) {
	s, err := load(paths)
	if err != nil {
		return api.ChangeResult{}, err
	}
	db, err := openToRun(ctx, replica.StoreConfig(s, logr.Discard()))
	if err != nil {
		return api.ChangeResult{}, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return replica.ChangeStore(ctx, s, db, r, about, preview)
}

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
