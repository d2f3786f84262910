package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// connection is one to a server.
type connection struct {
	conn     *pgx.Conn
	started  string   // when its server was, as text
	shows    bool     // what it shows was confirmed
	timeline timeline // that of the server
	doubt    int64    // about the store that it leads to, which was settled last
	warned   error    // what the server warned of since the last transaction began
	// lockTimeout and quiet are those of the connector.
	lockTimeout string
	quiet       bool
}

// address is that of the other end.
func (c *connection) address() string { return c.conn.PgConn().Conn().RemoteAddr().String() }

// errNoTag is a COMMIT that the server did not confirm.
var errNoTag = errors.New("the server did not confirm a COMMIT")

// settings are those of each transaction. Sessions take on what is reloaded, and a pooler gives another session each
// time. So nothing hangs on what was found before. A COMMIT waits for the disk, and for a synchronous standby. That the
// wait was ended is a warning. A row that is not had in time is held by a transaction that hangs, and a table by
// somebody who alters it. Then nothing was written, and what was had is free for others.
const settings = `SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') ` +
	`WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), set_config('client_min_messages', 'warning', true), ` +
	`set_config('lock_timeout', $1, true), set_config('` + quietSetting + `', $2, true)`

// Settings of transactions that triggers look at.
const (
	quietSetting = "shardctl.quiet" // on where changes notify no one
	muteSetting  = "shardctl.mute"  // on where they write no line of the log
	settingOn    = "on"
)

// transact runs statements as one transaction in one round trip.
func (c *connection) transact(ctx context.Context, statements []sqlstore.Statement) ([]int64, error) {
	quiet := ""
	if c.quiet {
		quiet = settingOn
	}
	all := []sqlstore.Statement{
		{Text: `BEGIN ISOLATION LEVEL READ COMMITTED`}, {Text: settings, Args: []any{c.lockTimeout, quiet}},
	}
	first := len(all)
	all = append(append(all, statements...), sqlstore.Statement{Text: `COMMIT`})
	c.warned = nil
	tags, err := c.send(ctx, all)
	if err == nil && tags[len(tags)-1].String() != "COMMIT" {
		err = errNoTag
	}
	if err == nil && c.warned != nil {
		err = c.warned // the wait for a standby was ended: it may not have the transaction
	}
	if err != nil {
		if !c.conn.IsClosed() && c.conn.PgConn().TxStatus() != 'I' {
			_, _ = c.conn.Exec(ctx, `ROLLBACK`) // with an error it is closed
		}
		return nil, err
	}
	counts := make([]int64, len(statements))
	for i := range counts {
		counts[i] = tags[first+i].RowsAffected()
	}
	return counts, nil
}

// serves waits until what the connection shows counts. After a crash a server shows at once what it had committed
// itself, also what no standby has: a promotion takes that back. All of it comes before this transaction, and so do a
// standby's confirmations. Later commits are shown once they are confirmed.
func (c *connection) serves(ctx context.Context) error {
	if c.shows {
		return nil
	}
	_, err := c.transact(ctx, []sqlstore.Statement{{
		Text: `SELECT pg_logical_emit_message(true, 'shardctl', '')`, Row: func(sqlstore.Row) error { return nil },
	}})
	c.shows = err == nil
	return err
}

// send sends statements together.
func (c *connection) send(ctx context.Context, statements []sqlstore.Statement) ([]pgconn.CommandTag, error) {
	batch := &pgx.Batch{}
	for _, s := range statements {
		batch.Queue(s.Text, s.Args...)
	}
	results := c.conn.SendBatch(ctx, batch)
	tags := make([]pgconn.CommandTag, len(statements))
	for i, s := range statements {
		var err error
		if tags[i], err = take(results, s.Row); err != nil {
			_ = results.Close() // the same error
			return nil, err
		}
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("the end of a batch: %w", err)
	}
	return tags, nil
}

// take reads the result of one statement.
func take(results pgx.BatchResults, row func(sqlstore.Row) error) (pgconn.CommandTag, error) {
	if row == nil {
		return results.Exec()
	}
	rows, err := results.Query()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// guard keeps rows that come late from a caller who has left.
type guard struct {
	mu   sync.Mutex
	some bool
	left bool
}

var errLeft = errors.New("the caller has left")

// rows are statements whose rows come to the caller only while it is there.
func (g *guard) rows(statements []sqlstore.Statement) []sqlstore.Statement {
	guarded := make([]sqlstore.Statement, len(statements))
	for i, s := range statements {
		guarded[i] = s
		if s.Row == nil {
			continue
		}
		guarded[i].Row = func(row sqlstore.Row) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.left {
				return errLeft
			}
			g.some = true
			return s.Row(row)
		}
	}
	return guarded
}

func (g *guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = true
}

// began says that the caller got a row.
func (g *guard) began() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.some
}
