package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/mongostore"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// StoreKind is mongodb or sqlite.
func StoreKind(uri string) string {
	if strings.HasPrefix(uri, sqlstore.Scheme) {
		return "sqlite"
	}
	return "mongodb"
}

// Obstructs says whether a process keeps all others from writing to the store that the settings name. Only SQLite's file has one lock
// for all.
func Obstructs(s *config.Settings, pid int) bool {
	path, err := sqlstore.ParseURI(s.Store.URI)
	if err != nil {
		return false // MongoDB
	}
	held, err := sqlstore.HoldsWriteLock(path, pid)
	return held && err == nil
}

// OpenStore opens the store that the settings name, once. It fails fast: with an error that wraps
// [elect.ErrUnavailable] when trying again may help.
func OpenStore(ctx context.Context, s *config.Settings, log logr.Logger) (store.Store, error) {
	if StoreKind(s.Store.URI) == "sqlite" {
		return openSQLite(ctx, s, log)
	}
	return openMongoDB(ctx, mongoOptions(s, log))
}

// OpenStoreToRead is OpenStore for those who only look. In MongoDB nothing is made, and the right to read is enough.
func OpenStoreToRead(ctx context.Context, s *config.Settings, log logr.Logger) (store.Store, error) {
	if StoreKind(s.Store.URI) == "sqlite" {
		return openSQLite(ctx, s, log)
	}
	opts := mongoOptions(s, log)
	opts.ReadOnly = true
	return openMongoDB(ctx, opts)
}

func mongoOptions(s *config.Settings, log logr.Logger) mongostore.Options {
	return mongostore.Options{
		URI: s.Store.URI, Database: s.Store.Database, Cluster: s.Cluster, OperationTimeout: s.Lease.Duration / 6, Logger: log,
	}
}

func openMongoDB(ctx context.Context, opts mongostore.Options) (store.Store, error) {
	db, err := mongostore.Open(ctx, opts)
	if err != nil {
		return nil, err // not the nil *Store: an interface that holds it is not nil
	}
	return db, nil
}

func openSQLite(ctx context.Context, s *config.Settings, log logr.Logger) (store.Store, error) {
	path, err := sqlstore.ParseURI(s.Store.URI)
	if err != nil {
		return nil, err
	}
	db, err := sqlstore.Open(ctx, path, sqlstore.Options{Cluster: s.Cluster, Logger: log})
	if err != nil {
		return nil, err
	}
	return db, nil
}

const (
	openTry    = 5 * time.Second // one try to open the store
	openPause  = 200 * time.Millisecond
	openPauses = 5 * time.Second // at most between two tries
)

// WaitForStore opens the store, trying again for as long as limit says while it is away; with limit 0 it tries once.
// failed is told of each failure and when the next try is.
func WaitForStore(ctx context.Context, limit time.Duration, open func(context.Context) (store.Store, error), failed func(err error, next time.Duration)) (store.Store, error) {
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
		case limit == 0 || !errors.Is(err, elect.ErrUnavailable):
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
func storeProblems(db store.Store) []status.Problem {
	mongo, ok := db.(*mongostore.Store)
	if !ok {
		return nil
	}
	var problems []status.Problem
	for _, p := range mongo.Problems() {
		problems = append(problems, status.Problem{Reason: p.Reason, Severity: status.SeverityWarning, Message: p.Message})
	}
	return problems
}
