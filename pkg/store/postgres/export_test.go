package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// What tests reach in for.
const MaxCalls = commonConnections + ownConnections

// LockOf is the number of the advisory lock of a set-up.
var LockOf = lockOf

// Exec runs statements on a connection of its own.
func Exec(ctx context.Context, uri string, statements ...string) error {
	conn, err := pgx.Connect(ctx, uri)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// Value asks for one number.
func Value(ctx context.Context, uri, text string, args ...any) (n int64, err error) {
	conn, err := pgx.Connect(ctx, uri)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, text, args...).Scan(&n)
	return n, err
}

// Timelines judges servers that take writes, one after the other.
func Timelines() (judge func(system, wal string) error) {
	c := &connector{}
	return func(system, wal string) error {
		_, err := c.judge("off", system, wal, "")
		return err
	}
}

// Told reports whether a client of a URI knows the identity of its store, and whether the server hides which timeline
// it follows.
func Told(ctx context.Context, uri string) (known, blind bool, err error) {
	c, err := registered{}.Parse(driver.Config{URI: uri})
	if err != nil {
		return false, false, err
	}
	s, err := newServer(ctx, c, Options{URI: uri, Timeout: DefaultTimeout})
	if err != nil {
		return false, false, err
	}
	opened, err := sqlstore.OpenServer(ctx, s, sqlstore.Options{Cluster: c.Cluster, Existing: true})
	if err != nil {
		return false, false, err
	}
	return s.Identity().Known() != "", s.calls.connector.blind.Load(), opened.Close(ctx)
}

// Works says whether a store would wait for a late answer on a connection to the server of a URI, as it is and as if
// that server had been started at another time.
func Works(ctx context.Context, uri string) (same, restarted bool, err error) {
	source, err := storeuri.NewSource(driver.Config{URI: uri}, secretParams, pgx.ParseConfig)
	if err != nil {
		return false, false, err
	}
	p := newPool(ctx, &connector{
		source: source, timeout: maxPatience, limit: maxPatience, patience: maxPatience, lockTimeout: "1s",
	}, 1, 0)
	defer p.maker.Close()
	c, err := p.connect(ctx, false)
	if err != nil {
		return false, false, err
	}
	defer c.drop(ctx)
	same = p.backendStillRuns(ctx, c)
	c.started = "0"
	return same, p.backendStillRuns(ctx, c), nil
}

// NoteFailed says whether a transaction of the default cluster that ended with an error is sent again without notes.
func NoteFailed(err error) bool {
	return (&server{noting: noteFunction(prefix("default"))}).NoteFailed(err)
}

var _ sqlstore.Server = (*server)(nil)
