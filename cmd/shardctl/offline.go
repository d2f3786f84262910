package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/status"
)

// offline shows what the store says, without a replica.
func offline(ctx context.Context, paths []string) (*status.Snapshot, error) {
	s, err := load(paths)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	store, err := replica.OpenStore(ctx, s, logr.Discard())
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	return replica.Look(ctx, s, store, version)
}
