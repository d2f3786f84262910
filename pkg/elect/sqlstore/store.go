package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Defaults of [Options].
const (
	DefaultCluster      = "default"
	DefaultPollInterval = 20 * time.Millisecond
)

// Options of a store. The zero value is ready to use.
type Options struct {
	// Cluster names the tables, so that several clusters may share a database: letters, digits, '.', '-' and '_', at
	// most 63. Default: DefaultCluster.
	Cluster string
	// PollInterval is how often a watch looks whether anything was written. Default: DefaultPollInterval.
	PollInterval time.Duration
	// Existing opens a store that was set up before: no table is made.
	Existing bool
	// Logger gets rows that were edited so that they cannot be read. The zero value logs nothing.
	Logger logr.Logger
}

// Store is one client of a SQL database. It implements [store.Store]; its methods may be called concurrently.
type Store struct {
	*pool
	sql   statements
	poll  time.Duration
	found found

	writer  chan *writer  // holds the one writer while it is free
	reading chan struct{} // one for each call that reads
	life    life
}

// readers is how many calls of one store read at once; more wait.
const readers = 4

// Open makes a store of a database and sets its tables up, all within ctx. The database is the store's from then on:
// also when Open fails it is closed. Errors wrap [store.ErrInvalid] when it is no use to try again, [store.ErrSchema]
// when another version of the program set it up, else [store.ErrUnavailable].
func Open(ctx context.Context, db *sql.DB, d Dialect, o Options) (*Store, error) {
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	if !ValidCluster(o.Cluster) {
		_ = db.Close() // nothing was done on it
		return nil, fmt.Errorf(
			"cluster %q: %w: want at most 63 letters, digits, '.', '-' and '_'", o.Cluster, store.ErrInvalid,
		)
	}
	s := &Store{
		pool: &pool{db, d, d.Texts()}, sql: newStatements(o.Cluster, d.Texts()), poll: o.PollInterval,
		found:  found{log: o.Logger},
		writer: make(chan *writer, 1), reading: make(chan struct{}, readers),
	}
	// Not limited here: the writer and each watch keep a connection, and readers must not wait for those.
	s.db.SetMaxOpenConns(0)
	s.db.SetMaxIdleConns(readers)
	s.life.begin(ctx)
	s.writer <- &writer{pool: s.pool}
	setUp := s.setUp
	if o.Existing {
		setUp = s.lookAtSchema
	}
	if _, err := await(ctx, s, setUp); err != nil {
		err = s.translate("set up", err)
		if closing := s.Close(context.WithoutCancel(ctx)); closing != nil {
			err = fmt.Errorf("%w (and %w)", err, closing)
		}
		return nil, err
	}
	return s, nil
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// ValidCluster says whether a cluster may have this name.
func ValidCluster(name string) bool { return clusterName.MatchString(name) }

// Close implements [store.Store]. It waits for the calls under way to let go of the database, no longer than ctx.
func (s *Store) Close(ctx context.Context) error {
	ended, err := s.life.end(ctx, func() error {
		w := <-s.writer
		w.drop()
		return s.translate("close", s.db.Close())
	})
	if !ended {
		return s.translate("close", err)
	}
	return err
}

var errClosed = errors.New("the store is closed")

// await runs f and waits for it no longer than ctx: a disk that hangs holds up the driver, but not the caller. f goes
// on until it notices; what it writes then is a write of unknown outcome.
func await[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	ctx, done, err := s.life.enter(ctx)
	if err != nil {
		return none, err
	}
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	go func() {
		defer done()
		value, err := f(ctx)
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-replies: // done has ended the context
		return r.value, r.err
	default:
		return none, context.Cause(ctx)
	}
}
