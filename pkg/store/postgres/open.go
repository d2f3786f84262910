package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store"
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
	// host of several may take to connect. Default: DefaultTimeout.
	Timeout time.Duration
	// Existing opens what was set up before: no table is made, and nothing listens before there is a watch.
	Existing bool
	// Logger gets broken watches, and rows that were edited so that they cannot be read. The zero value logs nothing.
	Logger logr.Logger
}

// Open connects and sets the tables up, all within ctx. Errors wrap [store.ErrInvalid] when it is no use to try again,
// [store.ErrSchema] when another version of the program set the tables up, else [store.ErrUnavailable]. They hold no
// secret.
func Open(ctx context.Context, o Options) (store.Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	c, err := driver{}.Parse(store.Config{URI: o.URI, Database: o.Database, Cluster: o.Cluster})
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	s, err := newServer(c, o)
	if err != nil {
		return nil, err
	}
	// First of all, as what else is asked depends on it; OpenServer closes the server where it fails.
	_, first := call(ctx, s.calls, want{}, func(context.Context, *connection) (struct{}, error) {
		return struct{}{}, nil
	})
	if first == nil {
		first = s.prepare(ctx, c.Cluster, o.Existing)
	}
	if first != nil {
		_ = s.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%s: %w: %w", s, s.Classify(first), s.explain(first))
	}
	return sqlstore.OpenServer(ctx, s, sqlstore.Options{
		Cluster: c.Cluster, PollInterval: cmp.Or(s.poll, pollEvery), Existing: o.Existing, Logger: o.Logger,
	})
}

// newServer makes the client; nothing is dialled.
func newServer(c store.Config, o Options) (*server, error) {
	secrets := secretParams.Of(c.URI)
	config, err := pgx.ParseConfig(c.URI)
	if err != nil { // as text only: it may quote the URI
		text := storeuri.Scrub(err.Error(), secrets)
		return nil, fmt.Errorf("PostgreSQL %s: %w: %s", secretParams.Redact(c.URI), store.ErrInvalid, text)
	}
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return nil, err
	}
	every, err := poll(u)
	if err != nil {
		return nil, err
	}
	delete(config.RuntimeParams, paramPoll)
	config.Database = c.Database
	patience := min(max(o.Timeout/2, minPatience), maxPatience)
	if u.Param("connect_timeout") == "" {
		config.ConnectTimeout = patience
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "shardctl"
	}
	common, own := commonConnections, ownConnections
	if o.Existing {
		common, own = 1, 0
	}
	connects := &connector{config: config, patience: patience, lockTimeout: lockTimeout(o.Timeout), quiet: every > 0}
	s := &server{
		dialect: dialect{
			fmt.Sprintf("PostgreSQL %s, database %q", hosts(config), c.Database), secrets,
			&connects.pooled,
		},
		timeout: o.Timeout, poll: every, calls: newPool(connects, common, own),
	}
	s.listener = newListener(s, channel(prefix(c.Cluster)), o.Logger)
	s.calls.gaveUp = s.listener.leave
	return s, nil
}

// lockTimeout is how long a call waits for a lock at a time: a quarter of all its time. So others, who want another
// table, get its connection in between.
func lockTimeout(call time.Duration) string {
	return fmt.Sprintf("%dms", max(call/4, minLockTimeout).Milliseconds())
}

// prefix begins the names of a cluster's tables.
func prefix(cluster string) string { return sqlstore.Prefix(cluster, maxName) }

// prepare finds out what operators should know.
func (s *server) prepare(ctx context.Context, cluster string, existing bool) error {
	f, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.problems = f.problems()
	switch {
	case existing:
		return nil
	case s.poll > 0:
		return s.renewNote(ctx, prefix(cluster))
	}
	hears, err := s.listener.start(ctx)
	if err == nil && !hears {
		s.problems = append(s.problems, polled())
	}
	return err
}

// renewNote replaces the function of a cluster's triggers where it is of a program that knew no quiet clients.
func (s *server) renewNote(ctx context.Context, prefix string) error {
	outdated := 0
	if err := s.Query(ctx, sqlstore.Common, sqlstore.Statement{
		Text: outdatedNote, Args: []any{noteFunction(prefix), "%" + quietSetting + "%"},
		Row: func(row sqlstore.Row) error { return row.Scan(&outdated) },
	}); err != nil || outdated == 0 {
		return err
	}
	return s.SetUp(ctx, prefix, func(run sqlstore.Run) error {
		return run(ctx, sqlstore.Statement{Text: createNote(prefix)})
	})
}
