package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore"
)

// offline shows what the store says, without a replica.
func offline(ctx context.Context, paths []string) (*status.Snapshot, error) {
	s, err := load(paths)
	if err != nil {
		return nil, err
	}
	if err := storeThere(s); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	store, err := replica.OpenStoreToRead(ctx, s, logr.Discard())
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	return replica.Look(ctx, s, store, version)
}

// storeThere fails where reading would make a store: an empty one looks as if no task had ever run.
func storeThere(s *config.Settings) error {
	if replica.StoreKind(s.Store.URI) != "sqlite" {
		return nil
	}
	path, err := sqlstore.ParseURI(s.Store.URI)
	if err != nil {
		return usage("store.uri: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no replica has made this store yet: %w", err)
	}
	return nil
}
