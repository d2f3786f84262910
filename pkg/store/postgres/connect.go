package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store"
)

// minVersion is the oldest server that is known to do all that is asked of it, as server_version_num.
const minVersion = 12_00_00

// A server that is gone without a word is noticed within about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// connector makes connections.
type connector struct {
	config *pgx.ConnConfig
	// patience is how long one host may take to connect, and how long an answer may be late before it is doubted.
	patience time.Duration
	// lockTimeout is how long a statement may wait for a lock, as PostgreSQL writes it.
	lockTimeout string
	// quiet: what is written notifies no one. Watches look at intervals.
	quiet bool
	// pooled says that a pooler stands between: statements that are prepared on one connection may not be on the next.
	pooled atomic.Bool
}

var (
	errReadOnly = errors.New("the server is read-only, as a standby is or a primary that was demoted: " +
		"name the primary, or all hosts")
	errCancel = errors.New("statements are not cancelled")
)

// connect makes a connection to the first host that takes writes.
func (c *connector) connect(ctx context.Context) (*connection, error) {
	for {
		pooled := c.pooled.Load()
		made, err := c.dial(ctx, pooled)
		if err != nil {
			return nil, err
		}
		found, err := c.greet(ctx, made)
		switch {
		case err != nil:
			made.drop(ctx)
			return nil, err
		case pooled || !found:
			return made, nil
		}
		c.pooled.Store(true)
		made.drop(ctx)
	}
}

// connecting is in the context of a connection that is being made.
type connecting struct{}

// dial connects. The driver may dial for the connection that is being made, and not to cancel what runs on it:
// PostgreSQL would end the wait for a synchronous standby, and show a write that the standby may never get. It cancels
// also after a connection that could not be made.
func (c *connector) dial(ctx context.Context, pooled bool) (*connection, error) {
	made := &connection{}
	config := c.config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if pooled {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(connecting{}) == nil {
			return nil, errCancel
		}
		return dialer.DialContext(ctx, network, address)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			made.warned = fmt.Errorf("the server warns: %s", n.Message)
		}
	}
	config.ValidateConnect = writable
	var err error
	made.conn, err = pgx.ConnectConfig(context.WithValue(ctx, connecting{}, true), config)
	made.lockTimeout, made.quiet = c.lockTimeout, c.quiet
	return made, err
}

// writable refuses a server that takes no writes, so that the next host is tried.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, `SHOW transaction_read_only`, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && string(result.Rows[0][0]) == "on" {
		return errReadOnly
	}
	return nil
}

// greet is hello, within the time that one host has.
func (c *connector) greet(ctx context.Context, made *connection) (pooled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.config.ConnectTimeout, c.patience))
	defer cancel()
	return made.hello(ctx, c.lockTimeout)
}

// hello asks for the process, the version, and the server's start. Unless a pooler answers, it has the server notice
// within ten seconds that a client's machine is gone. A batch of which it got one half locks rows until then; its
// default is two hours. A wait for a lock is bounded from here on: to prepare a statement may wait for one.
const hello = `SELECT pg_backend_pid()::bigint, current_setting('server_version_num')::bigint, ` +
	`extract(epoch FROM pg_postmaster_start_time())::text, ` +
	`CASE WHEN pg_backend_pid()::bigint = $1 THEN set_config('tcp_keepalives_idle', '4', false) || ` +
	`set_config('tcp_keepalives_interval', '2', false) || set_config('tcp_keepalives_count', '3', false) || ` +
	`set_config('lock_timeout', $2, false) ELSE '' END`

// hello looks at what a connection leads to. A pooler answers with another process than the one that it presented.
func (c *connection) hello(ctx context.Context, lockTimeout string) (pooled bool, err error) {
	var pid, version int64
	var set string
	own := int64(c.conn.PgConn().PID())
	row := c.conn.QueryRow(ctx, hello, pgx.QueryExecModeExec, own, lockTimeout)
	if err := row.Scan(&pid, &version, &c.started, &set); err != nil {
		return false, err
	}
	if version < minVersion {
		return false, fmt.Errorf(
			"%w: PostgreSQL %d, want %d or newer: upgrade it", store.ErrInvalid, version/10_000, minVersion/10_000,
		)
	}
	return pid != own, nil
}

// weak says that by a setting of synchronous_commit a COMMIT may return before the disk has it, or a synchronous
// standby's has.
func weak(setting string) bool { return setting != "on" && setting != "remote_apply" }

// drop closes a connection at once, also where ctx has ended.
func (c *connection) drop(ctx context.Context) {
	if c.conn == nil || c.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
}
