// Package mysql keeps the documents of package elect in a database of MariaDB or MySQL. It is tested on MariaDB; MySQL
// itself is untested.
//
// A batch is one text of several statements within one transaction, and so one round trip. Each change carries its
// condition. Connections are at READ COMMITTED: each statement sees what was committed before it began. Parameters are
// put into the text by the driver, as literals of bytes, under settings that the connection sets itself.
//
// Two connections are for all calls, and two for those of sessions alone. A heartbeat that changes no state writes no
// other table, also where that is locked.
//
// Notifications are lines of a log that each change writes in its own transaction. Watches poll the log. Triggers would
// need the right SUPER wherever the server writes a binary log.
//
// # What it does not promise
//
// A fail-over to a replica that acknowledged nothing loses writes that were acknowledged: see the settings that
// [store.Problems] and [store.Inspect] show. A server that was replaced must not be written to any more. As soon as
// it is read-only, it is taken as unavailable for reads as well.
//
// To import this package registers it for URIs that begin with mysql: (see [driver.Register]).
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Defaults of [Options].
const (
	DefaultTimeout      = 10 * time.Second
	DefaultPollInterval = 100 * time.Millisecond
)

// How many connections a store keeps at most: for all calls, and for those in the lane of sessions. There one is
// for a heartbeat while another waits for the log.
const (
	commonConnections = 2
	ownConnections    = 2
	MaxConnections    = commonConnections + ownConnections
)

// Options of a store. The zero value is ready to use.
type Options struct {
	// Database has precedence over the one that the URI names. It has to be there. Default: the URI's, else
	// DefaultDatabase.
	Database string
	// Cluster names the tables, as in [sqlstore.Options].
	Cluster string
	// PollInterval is how often a watch looks into the log. Default: pollMillis of the URI, else DefaultPollInterval.
	PollInterval time.Duration
	// Timeout bounds calls whose context has no deadline. Default: DefaultTimeout.
	Timeout time.Duration
	// Renew is that of a [driver.Config].
	Renew func() (string, error)
	// Existing opens a store that was set up before: no table is made.
	Existing bool
	// Logger gets rows that were edited so that they cannot be read, and connections that broke. The zero value logs
	// nothing.
	Logger logr.Logger
}

// Open connects to the server of a URI, looks at its settings, and makes the tables that are missing, all within ctx.
// Errors wrap [driver.ErrInvalid] when it is no use to try again, [driver.ErrSchema] when another version of the program
// set the tables up, else [driver.ErrUnavailable]. They hold no secret.
func Open(ctx context.Context, uri string, o Options) (driver.Store, error) {
	target, err := parse(uri, o.Database)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(uri), err)
	}
	timeout := cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	source, err := storeuri.NewSource(
		driver.Config{URI: uri, Renew: o.Renew, Logger: o.Logger}, secrets, func(uri string) (sqldriver.Connector, error) {
			return dialer(uri, target.database, o.Logger)
		},
	)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(uri), err)
	}
	identity := &sqlstore.Identity{}
	made := newMaker(ctx, source, timeout, identity)
	s := &server{
		dialect: dialect(fmt.Sprintf("MySQL database %q at %s", target.database, target.addr)),
		calls: &calls{
			made: made, identity: identity, database: target.database, timeout: timeout,
			commonPace: dbstore.Pace{Every: timeout}, ownPace: dbstore.Pace{Every: timeout},
		},
		poll: cmp.Or(max(o.PollInterval, 0), target.poll, DefaultPollInterval),
	}
	if o.Existing {
		s.common = pool(connector{made, false}, 1)
		s.own = s.common
	} else {
		s.common, s.own = pool(connector{made, false}, commonConnections), pool(connector{made, true}, ownConnections)
	}
	if err := s.look(ctx); err != nil {
		_ = s.Close(ctx) // nothing was written on it
		return nil, fmt.Errorf("%s: connect: %w: %w", s, sqlstore.Sentinel(s, err), err)
	}
	return sqlstore.OpenServer(ctx, s, sqlstore.Options{
		Cluster: o.Cluster, PollInterval: s.poll, Existing: o.Existing, Logger: o.Logger,
	})
}

// pool is a number of connections, which are made when they are needed.
func pool(c connector, size int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db
}

func init() { driver.Register(Scheme, registered{}) }

// registered is what the registry knows of MySQL and MariaDB.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "mysql" }

// Form implements [driver.Driver].
func (registered) Form(scheme string) string { return scheme + "://USER@HOST/DATABASE" }

// Parse implements [driver.Driver]. Its errors never quote the URI.
func (registered) Parse(c driver.Config) (driver.Config, error) {
	t, err := parse(c.URI, c.Database)
	if err != nil {
		return c, err
	}
	c.Database = t.database
	c.Cluster, err = dbstore.Cluster(c.Cluster)
	return c, err
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, c.URI, Options{
		Database: c.Database, Cluster: c.Cluster, Timeout: c.Timeout, Renew: c.Renew, Existing: c.Existing,
		Logger: c.Logger,
	})
}

// Scheme of a store's URI: mysql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE.
const Scheme = "mysql"

// DefaultDatabase is the database of a URI that names none.
const DefaultDatabase = "shardctl"

const defaultPort = 3306

var syntax = storeuri.Syntax{DefaultPort: defaultPort, OneHost: true, Params: []string{storeuri.ParamPoll}, TLS: true}

var secrets storeuri.Secrets // none but the password

// Redact is a URI without its password. It takes wrong URIs as well, and then rather hides too much.
func Redact(uri string) string { return secrets.Redact(uri) }

// target is what a URI says.
type target struct {
	user, password, addr, database string
	poll                           time.Duration // 0: not said
	files                          storeuri.TLSFiles
}

var databaseName = regexp.MustCompile("^[^`/\\\\.\\x00-\\x1f]{1,64}$")

// parse reads a URI. database has precedence over the one that it names. Errors are a [driver.FieldError].
func parse(uri, database string) (target, error) {
	u, err := syntax.Parse(uri)
	if err != nil {
		return target{}, err
	}
	field := "database"
	if database == "" {
		database, field = cmp.Or(u.Path, DefaultDatabase), "uri"
	}
	if !databaseName.MatchString(database) {
		return target{}, &driver.FieldError{
			Field: field, Text: "names a wrong database, must be at most 64 characters without / \\ . and `",
		}
	}
	if u.User == "" {
		return target{}, &driver.FieldError{Field: "uri", Text: "names no user, must be mysql://USER@HOST/DATABASE"}
	}
	poll, err := u.Poll()
	if err != nil {
		return target{}, err
	}
	files, err := u.TLS(false)
	return target{
		user: u.User, password: u.Password, addr: u.Hosts[0], database: database,
		poll: poll, files: files,
	}, err
}

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

// maker makes connections that are set up.
type maker = dbstore.Maker[sqldriver.Conn]

// dialer connects to what a URI says, with what its files hold now.
func dialer(uri, database string, log logr.Logger) (sqldriver.Connector, error) {
	t, err := parse(uri, database)
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = t.user, t.password, "tcp", t.addr, t.database
	c.InterpolateParams, c.MultiStatements = true, true
	c.ConnectionAttributes = "program_name:shardctl"
	c.Logger = logger{log}
	if c.TLS, err = t.files.Config(); err != nil {
		return nil, err
	}
	dial, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	return dial, nil
}

func newMaker(
	ctx context.Context, source *storeuri.Source[sqldriver.Connector], timeout time.Duration, identity *sqlstore.Identity,
) *maker {
	set := session + lockWaits(timeout)
	limit := dbstore.Limit(timeout)
	return dbstore.NewMaker(ctx, timeout, limit, func(ctx context.Context, _ int) (sqldriver.Conn, error) {
		conn, err := source.Get().Connect(ctx)
		if err != nil {
			return nil, err
		}
		c := &connection{conn.(driverConn), identity, 0} //nolint:forcetypeassert // the driver's has them all
		if err := c.begin(ctx, set); err != nil {
			giveUp(conn)
			return nil, fmt.Errorf("set up a connection: %w", err)
		}
		return c, nil
	}, giveUp)
}

// driverConn is what the driver's connections implement.
type driverConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.NamedValueChecker
	sqldriver.Pinger
	sqldriver.QueryerContext
	sqldriver.SessionResetter
	sqldriver.Validator
}

// connection is one that leads to the store that is known, as far as that was in doubt when it was used last.
type connection struct {
	driverConn
	identity *sqlstore.Identity
	doubt    int64 // that was settled
}

// begin sets a connection up, and asks in the same text for the identity of the store, once that is known.
func (c *connection) begin(ctx context.Context, set string) error {
	ask, doubt := c.identity.Ask()
	if ask == "" {
		_, err := c.ExecContext(ctx, set, nil)
		return err
	}
	found, err := c.ask(ctx, set+"; "+ask)
	if number(err) == erNoSuchTable {
		found, err = "", nil
	}
	if err == nil {
		err = c.identity.Check(found)
	}
	c.doubt = doubt
	return err
}

// ask returns the only value of a text's only query.
func (c *connection) ask(ctx context.Context, text string) (string, error) {
	rows, err := c.QueryContext(ctx, text, nil)
	if err != nil {
		return "", err
	}
	found := []sqldriver.Value{nil}
	for next, _ := rows.(sqldriver.RowsNextResultSet); len(rows.Columns()) == 0; {
		if err := next.NextResultSet(); err != nil {
			return "", errors.Join(err, rows.Close())
		}
	}
	err = rows.Next(found)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	uuid, _ := found[0].([]byte)
	return string(uuid), errors.Join(err, rows.Close())
}

// ResetSession implements [sqldriver.SessionResetter]. It is called before a connection is used again: one that is in doubt
// gives way to another, which is compared when it is made.
func (c *connection) ResetSession(ctx context.Context) error {
	if ask, doubt := c.identity.Ask(); ask != "" && doubt != c.doubt {
		found, err := c.ask(ctx, ask)
		if err != nil || c.identity.Check(found) != nil {
			return sqldriver.ErrBadConn
		}
		c.doubt = doubt
	}
	return c.driverConn.ResetSession(ctx)
}

// giveUp closes a connection that was never used.
func giveUp(c sqldriver.Conn) { _ = c.Close() }

// connector is how a pool gets its connections.
type connector struct {
	made  *maker
	first bool // before the calls of others
}

// Connect implements [sqldriver.Connector]. A connection has answered a statement when it is made, and so has served.
func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.made.Get(ctx, c.first)
	if err != nil {
		return nil, err
	}
	c.made.Served()
	return conn, nil
}

// Driver implements [sqldriver.Connector].
func (c connector) Driver() sqldriver.Driver { return mysql.MySQLDriver{} }

// logger takes what the driver says of connections that broke. Who called gets an error as well.
type logger struct{ to logr.Logger }

// Print implements [mysql.Logger].
func (l logger) Print(v ...any) {
	l.to.V(1).Info("A connection to the database broke", "error", fmt.Sprint(v...))
}
