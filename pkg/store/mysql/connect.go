package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store"
)

// session is what each connection sets: nothing hangs on the server's defaults, nor on those of an account.
//
// utf8mb4 and sql_mode are what the driver's literals are safe under. An hour that comes twice when summer time ends
// would put the clock back. A client that reads nothing is given up after ten seconds, and its locks with it.
// wsrep_sync_wait has Galera's nodes wait for what others have committed before they read or write; other servers
// ignore it.
const session = `SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; ` +
	`SET SESSION autocommit = 1, completion_type = 'NO_CHAIN', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', ` +
	`sql_safe_updates = 0, sql_select_limit = DEFAULT, time_zone = '+00:00', ` +
	`net_write_timeout = 10 /*M!100600 , wsrep_sync_wait = 7 */`

// lockWaits bounds the waits for a row and for a table, in whole seconds: a quarter of a call's time, and one at least.
// A row that is not had by then is held by a transaction that hangs, and a table by somebody who alters it. Then the
// connection is free for others, who want another table.
func lockWaits(call time.Duration) string {
	return fmt.Sprintf("; SET SESSION innodb_lock_wait_timeout = %[1]d, lock_wait_timeout = %[1]d",
		max(1, int(call.Seconds()/4)))
}

// connector makes connections that are set up.
type connector struct {
	driver.Connector
	timeout time.Duration // of each
}

func newConnector(t target, timeout time.Duration, log logr.Logger) (connector, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = t.user, t.password, "tcp", t.addr, t.database
	c.InterpolateParams, c.MultiStatements = true, true
	c.ConnectionAttributes = "program_name:shardctl"
	c.Logger = logger{log}
	var err error
	if c.TLS, err = t.tls(); err != nil {
		return connector{}, err
	}
	made, err := mysql.NewConnector(c)
	if err != nil {
		return connector{}, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return connector{made, timeout}, nil
}

// Connect implements [driver.Connector]. The pool also calls it with a context that never ends, from one goroutine, and
// counts the connection from then on. A server that hangs would use up all that there may be.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	set := session + lockWaits(c.timeout)
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, set, nil); err != nil { //nolint:forcetypeassert // it is
		_ = conn.Close() // never used
		return nil, fmt.Errorf("set up a connection: %w", err)
	}
	return conn, nil
}

// logger takes what the driver says of connections that broke. Who called gets an error as well.
type logger struct{ to logr.Logger }

// Print implements [mysql.Logger].
func (l logger) Print(v ...any) {
	l.to.V(1).Info("A connection to the database broke", "error", fmt.Sprint(v...))
}
