package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
)

// StoreKind is what a store's driver is called; empty when there is none.
func StoreKind(uri string) string {
	d, err := store.Lookup(uri)
	if err != nil {
		return ""
	}
	return d.Name()
}

// StoreConfig is what the settings say of the store.
func StoreConfig(s *config.Settings, log logr.Logger) store.Config {
	return store.Config{
		URI: s.Store.URI, Database: s.Store.Database, Cluster: s.Cluster, Timeout: s.Lease.Duration / 6, Logger: log,
	}
}

// Obstructs says whether a process keeps all others from writing to the store that the settings name.
func Obstructs(s *config.Settings, pid int) bool {
	d, err := store.Lookup(s.Store.URI)
	if err != nil {
		return false
	}
	held, err := d.Obstructs(StoreConfig(s, logr.Discard()), pid)
	return held && err == nil
}

const (
	openTry    = 5 * time.Second // one try to open the store
	openPause  = 200 * time.Millisecond
	openPauses = 5 * time.Second // at most between two tries
)

// WaitForStore opens the store, trying again for as long as limit says while it is unreachable; with limit 0 it tries
// once. failed is called with each failure and when the next try is.
func WaitForStore(
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

// storeProblems is what an operator should know of the store itself.
func storeProblems(db store.Store) []api.Problem {
	var problems []api.Problem
	for _, p := range store.Problems(db) {
		problems = append(
			problems, api.Problem{Reason: p.Reason, Severity: api.SeverityWarning, Message: p.Message},
		)
	}
	return problems
}
