package main

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// offline shows what the store says, without a replica.
func offline(ctx context.Context, paths []string) (*status.Snapshot, error) {
	s, err := load(paths)
	if err != nil {
		return nil, err
	}
	// An empty store looks as if no task had ever run: nothing is made.
	c := replica.StoreConfig(s, logr.Discard())
	c.Existing = true
	db, err := store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return replica.Look(ctx, s, db, version)
}
