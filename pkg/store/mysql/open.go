package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
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
	// Existing opens a store that was set up before: no table is made.
	Existing bool
	// Logger gets rows that were edited so that they cannot be read, and connections that broke. The zero value logs
	// nothing.
	Logger logr.Logger
}

// Open connects to the server of a URI, looks at its settings, and makes the tables that are missing, all within ctx.
// Errors wrap [store.ErrInvalid] when it is no use to try again, [store.ErrSchema] when another version of the program
// set the tables up, else [store.ErrUnavailable]. They hold no secret.
func Open(ctx context.Context, uri string, o Options) (store.Store, error) {
	target, err := parse(uri, o.Database)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(uri), err)
	}
	timeout := cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	connector, err := newConnector(target, timeout, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(uri), err)
	}
	s := &server{
		dialect: dialect(fmt.Sprintf("MySQL database %q at %s", target.database, target.addr)),
		calls:   &calls{database: target.database, timeout: timeout},
		poll:    cmp.Or(max(o.PollInterval, 0), target.poll, DefaultPollInterval),
	}
	if o.Existing {
		s.common = pool(connector, 1)
		s.own = s.common
	} else {
		s.common, s.own = pool(connector, commonConnections), pool(connector, ownConnections)
	}
	if err := s.look(ctx); err != nil {
		_ = s.Close(ctx) // nothing was written on it
		return nil, fmt.Errorf("%s: connect: %w: %w", s, sentinel(err), err)
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

// sentinel is the error of package store that err wraps or comes down to.
func sentinel(err error) error {
	if wrapped := wrappedSentinel(err); wrapped != nil {
		return wrapped
	}
	return dialect("").Classify(err)
}
