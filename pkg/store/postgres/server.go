package postgres

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// server is one PostgreSQL, or one cluster of it with a primary.
type server struct {
	dialect

	timeout  time.Duration // of calls whose context has no deadline, as those of a watch
	poll     time.Duration // how often watches look in place of LISTEN and NOTIFY; 0: they are notified
	calls    *pool
	listener *listener
	problems []store.Problem
}

// Problems implements [sqlstore.Server].
func (s *server) Problems() []store.Problem { return s.problems }

// Query implements [sqlstore.Server]. Queries whose connection turns out to be broken are sent again, up to once on a
// new one.
func (s *server) Query(ctx context.Context, lane sqlstore.Lane, queries ...sqlstore.Statement) error {
	ctx, cancel := engine.Bound(ctx, s.timeout)
	defer cancel()
	if s.calls.connector.pooled.Load() {
		queries = append(append([]sqlstore.Statement{s.calls.connector.noLongWait()}, queries...), writableNow)
	}
	g := &guard{}
	defer g.leave()
	send := func(ctx context.Context, c *connection) ([]pgconn.CommandTag, error) {
		return c.send(ctx, g.rows(queries))
	}
	before := s.calls.made.Load()
	_, err := call(ctx, s.calls, want{lane, true}, send)
	for range s.calls.size() {
		if err == nil || ctx.Err() != nil || !broken(err) || s.calls.made.Load() != before || g.began() {
			break
		}
		_, err = call(ctx, s.calls, want{lane, true}, send)
	}
	return s.explain(err)
}

// noLongWait bounds the wait for a lock behind a pooler, where nothing that was set before holds. It is for those
// queries alone that are sent with it: together they are one transaction.
func (c *connector) noLongWait() sqlstore.Statement {
	return sqlstore.Statement{
		Text: `SELECT set_config('lock_timeout', $1, true)`, Args: []any{c.lockTimeout},
		Row: func(sqlstore.Row) error { return nil },
	}
}

// writableNow refuses the answers of a server that takes no writes. A connection to a pooler outlasts the server behind
// it, and may lead to a standby later. It comes behind the queries: who takes writes then was the primary before.
var writableNow = sqlstore.Statement{Text: `SHOW transaction_read_only`, Row: func(row sqlstore.Row) error {
	var readOnly string
	if err := row.Scan(&readOnly); err != nil {
		return err
	}
	if readOnly == "on" {
		return errReadOnly
	}
	return nil
}}

// Transact implements [sqlstore.Server].
func (s *server) Transact(
	ctx context.Context, lane sqlstore.Lane, statements ...sqlstore.Statement,
) ([]int64, error) {
	ctx, cancel := engine.Bound(ctx, s.timeout)
	defer cancel()
	g := &guard{}
	defer g.leave()
	counts, err := call(ctx, s.calls, want{lane: lane}, func(ctx context.Context, c *connection) ([]int64, error) {
		return c.transact(ctx, g.rows(statements))
	})
	return counts, s.explain(err)
}

// SetUp implements [sqlstore.Server]: one transaction, under a lock that ends with it.
func (s *server) SetUp(ctx context.Context, name string, f func(run sqlstore.Run) error) error {
	_, err := call(ctx, s.calls, want{}, func(ctx context.Context, c *connection) (struct{}, error) {
		// At READ COMMITTED whatever the default is: what another set-up has made shows after the wait for it.
		return struct{}{}, pgx.BeginTxFunc(ctx, c.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(pgx.Tx) error {
			if _, err := c.conn.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf(name)); err != nil {
				return err
			}
			return f(func(_ context.Context, statements ...sqlstore.Statement) error {
				_, err := c.send(ctx, statements)
				return err
			})
		})
	})
	return s.explain(err)
}

// lockOf is the number of the advisory lock for a set-up.
func lockOf(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("shardctl set-up of " + name))
	return int64(h.Sum64()) //nolint:gosec // any number will do
}

// Close implements [sqlstore.Server].
func (s *server) Close(ctx context.Context) error {
	s.listener.close()
	return s.calls.close(ctx)
}
