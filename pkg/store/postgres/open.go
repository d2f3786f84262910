// Package postgres keeps the documents of package elect in PostgreSQL 12 or newer.
//
// A batch is one transaction and one round trip: its statements are sent together, with what begins and commits it.
// Watches are notified by LISTEN and NOTIFY. Behind a pooler that gives each transaction another connection, LISTEN
// hears nothing: then watches look four times a second, and the store says so as the problem StorePolled.
// With pollMillis in the URI they look at that interval, and no change notifies.
//
// A client keeps four connections at most: two for all calls, one for those of sessions alone, one that listens. Where
// a lock is not had soon, a statement fails and is sent again. Where a call ends before its answer, its connection is
// kept until the answer comes. It is given up when the server turns out to be another one, or does not know it any
// more. A statement is never cancelled: PostgreSQL ends the wait for a synchronous standby then, and shows a write that
// the standby may never get.
//
// To import this package registers it for URIs that begin with postgres: (see [driver.Register]).
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// DefaultTimeout is that of [Options].
const DefaultTimeout = 5 * time.Second

const (
	// Bounds of how long one host may take to connect.
	minPatience = 500 * time.Millisecond
	maxPatience = 5 * time.Second
	// minLockTimeout is for rows that many want at once, as a counter.
	minLockTimeout = 50 * time.Millisecond
)

// Options of a store. Only URI is required.
type Options struct {
	// URI is postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/DATABASE][?NAME=VALUE…].
	URI string
	// Database is the database's name. Default: the URI's, else DefaultDatabase.
	Database string
	// Cluster names the tables, so that several clusters may share a database. Default: sqlstore.DefaultCluster.
	Cluster string
	// Timeout bounds calls whose context has no deadline: a sixth of the lease's duration. Half of it is how long one
	// host of several may take to connect at first. Default: DefaultTimeout.
	Timeout time.Duration
	// Renew is that of a [driver.Config].
	Renew func() (string, error)
	// Existing opens what was set up before: no table is made, and nothing listens before there is a watch.
	Existing bool
	// Logger gets broken watches, and rows that were edited so that they cannot be read. The zero value logs nothing.
	Logger logr.Logger
}

// Open connects and sets the tables up, all within ctx. Errors wrap [driver.ErrInvalid] when it is no use to try again,
// [driver.ErrSchema] when another version of the program set the tables up, else [driver.ErrUnavailable]. They hold no
// secret.
func Open(ctx context.Context, o Options) (driver.Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	c, err := registered{}.Parse(driver.Config{
		URI: o.URI, Renew: o.Renew, Database: o.Database, Cluster: o.Cluster, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	s, err := newServer(ctx, c, o)
	if err != nil {
		return nil, err
	}
	ctx, opened := dbstore.Bound(ctx, 2*s.calls.connector.limit)
	defer opened()
	s.calls.connector.askAll(ctx)
	// First of all, as what else is asked depends on it; OpenServer closes the server where it fails.
	first := s.connect(ctx)
	if first == nil {
		first = s.prepare(ctx, o.Existing)
	}
	if first != nil {
		_ = s.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%s: %w: %w", s, s.Classify(first), s.explain(first))
	}
	return sqlstore.OpenServer(ctx, s, sqlstore.Options{
		Cluster: c.Cluster, PollInterval: cmp.Or(s.poll, pollEvery), Existing: o.Existing, Logger: o.Logger,
	})
}

// connect makes the first connection. Hosts that are far away get more patience with each attempt.
func (s *server) connect(ctx context.Context) error {
	for {
		_, err := call(ctx, s.calls, want{}, func(context.Context, *connection) (struct{}, error) {
			return struct{}{}, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// newServer makes the client; nothing is dialled.
func newServer(ctx context.Context, c driver.Config, o Options) (*server, error) {
	source, err := storeuri.NewSource(c, secretParams, func(uri string) (*pgx.ConnConfig, error) {
		return parse(uri, c.Database)
	})
	if err != nil {
		return nil, err
	}
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return nil, err
	}
	every, err := u.Poll()
	if err != nil {
		return nil, err
	}
	config := source.Get()
	connects := &connector{
		source: source, timeout: o.Timeout, limit: dbstore.Limit(o.Timeout), lockTimeout: lockTimeout(o.Timeout),
		patience: min(max(o.Timeout/2, minPatience), maxPatience), quiet: every > 0,
	}
	if connects.fixed = u.Param("connect_timeout") != ""; connects.fixed {
		connects.limit = max(connects.limit, config.ConnectTimeout*time.Duration(1+len(config.Fallbacks)))
	}
	common, own := commonConnections, ownConnections
	if o.Existing {
		common, own = 1, 0
	}
	s := &server{
		dialect: dialect{
			fmt.Sprintf("PostgreSQL %s, database %q", strings.Join(hosts(config), ","), c.Database),
			source.Hidden, &connects.pooled,
		},
		noting: noteFunction(prefix(c.Cluster)), timeout: o.Timeout, poll: every, calls: newPool(ctx, connects, common, own),
	}
	s.listener = newListener(s, channel(prefix(c.Cluster)), o.Logger)
	s.calls.gaveUp = s.listener.leave
	return s, nil
}

// parse reads a URI, and the files that it names.
func parse(uri, database string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(uri)
	if err != nil { // as text only: it may quote the URI
		text := storeuri.Scrub(err.Error(), secretParams.Of(uri))
		return nil, fmt.Errorf("PostgreSQL %s: %w: %s", secretParams.Redact(uri), driver.ErrInvalid, text)
	}
	delete(config.RuntimeParams, storeuri.ParamPoll) // unknown to the server
	config.Database = database
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "shardctl"
	}
	// Texts are sent as UTF-8. A role, a database or the URI's options may set another encoding, and then one name would
	// be other bytes for other processes: two would hold one lock. What a client asks for wins over all of these.
	config.RuntimeParams["client_encoding"] = "UTF8"
	return config, nil
}

// lockTimeout is how long a call waits for a lock at a time: a quarter of all its time. So others, who want another
// table, get its connection in between.
func lockTimeout(call time.Duration) string {
	return fmt.Sprintf("%dms", max(call/4, minLockTimeout).Milliseconds())
}

// prefix begins the names of a cluster's tables.
func prefix(cluster string) string { return sqlstore.Prefix(cluster, maxName) }

// prepare finds out what operators should know.
func (s *server) prepare(ctx context.Context, existing bool) error {
	f, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.problems.Looked(f.problems())
	if existing || s.poll > 0 {
		return nil
	}
	hears, err := s.listener.start(ctx)
	if err == nil && !hears {
		s.problems.Add(polled())
	}
	return err
}

// scheme of a store's URI.
const scheme = "postgres"

// DefaultDatabase is the database of a URI that names none.
const DefaultDatabase = "shardctl"

const defaultPort = 5432

func init() { driver.Register(scheme, registered{}) }

// syntax is that of libpq's URIs, as far as it is of use here.
var syntax = storeuri.Syntax{DefaultPort: defaultPort, Params: []string{
	"application_name", "connect_timeout", "options", "search_path", "sslcert", "sslkey", "sslmode", "sslnegotiation",
	"sslpassword", "sslrootcert", "sslsni", storeuri.ParamPoll,
}}

// secretParams are the parameters of a URI that carry secrets.
var secretParams = storeuri.Secrets{"sslpassword", "password"}

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// driver is what the registry knows of PostgreSQL.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "postgresql" }

// Form implements [driver.Driver].
func (registered) Form(scheme string) string { return scheme + "://HOST…" }

// Parse implements [driver.Driver].
func (registered) Parse(c driver.Config) (driver.Config, error) {
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return c, err
	}
	if mode := cmp.Or(u.Param("sslmode"), sslModes[0]); !slices.Contains(sslModes, mode) {
		return c, &driver.FieldError{
			Field: "uri", Text: "has a wrong sslmode, must be one of " + strings.Join(sslModes, ", "),
		}
	}
	if _, err := u.Whole("connect_timeout", 0, 1, 300); err != nil {
		return c, err
	}
	if _, err := u.Poll(); err != nil {
		return c, err
	}
	field := "database"
	if c.Database == "" {
		c.Database, field = cmp.Or(u.Path, DefaultDatabase), "uri"
	}
	if len(c.Database) > maxName || strings.ContainsAny(c.Database, "/\x00") {
		return c, &driver.FieldError{Field: field, Text: "names a wrong database, must be at most 63 bytes without /"}
	}
	c.Cluster, err = dbstore.Cluster(c.Cluster)
	return c, err
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return secretParams.Redact(uri) }

// SecretVariables implements [driver.SecretReader]. pgx reads the password from the environment, as libpq does, and the
// files that hold one or a key. A certificate without its key, or a service without its file, would make psql fail.
func (registered) SecretVariables(driver.Config) []string {
	return []string{
		"PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGSSLCERT", "PGSSLKEY", "PGSSLPASSWORD",
	}
}

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, Options{
		URI: c.URI, Renew: c.Renew, Database: c.Database, Cluster: c.Cluster, Timeout: c.Timeout,
		Existing: c.Existing, Logger: c.Logger,
	})
}

// hosts are those of a configuration, once each and in their order.
func hosts(config *pgx.ConnConfig) []string {
	all := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, f := range config.Fallbacks {
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// eachHost is a configuration for each of several hosts; nil where there is one.
func eachHost(config *pgx.ConnConfig) (all []*pgx.ConnConfig) {
	names := hosts(config)
	if len(names) < 2 {
		return nil
	}
	ways := append([]*pgconn.FallbackConfig{{
		Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig,
	}}, config.Fallbacks...)
	for _, name := range names {
		one := config.Copy()
		one.Fallbacks = slices.DeleteFunc(slices.Clone(ways), func(f *pgconn.FallbackConfig) bool {
			return net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))) != name
		})
		first := one.Fallbacks[0]
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = first.Host, first.Port, first.TLSConfig, one.Fallbacks[1:]
		all = append(all, one)
	}
	return all
}
