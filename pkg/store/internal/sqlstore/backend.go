package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// Defaults of [Options].
const (
	DefaultCluster      = engine.DefaultCluster
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

// Backend is one client of a SQL database. It implements [engine.Backend].
type Backend struct {
	*core
	database database
	poll     time.Duration
}

// Open makes a store of a database in a file and sets its tables up, all within ctx. The database is the store's from
// then on: also when Open fails it is closed. Errors wrap [store.ErrInvalid] when it is no use to try again,
// [store.ErrSchema] when another version of the program set it up, else [store.ErrUnavailable].
func Open(ctx context.Context, db *sql.DB, d File, o Options) (store.Store, error) {
	return open(ctx, d, o.withDefaults(), func(c *core) database { return newFile(c, db, d) })
}

// OpenServer is Open for a database that is reached over a network. The server is the store's from then on: also when
// OpenServer fails it is closed.
func OpenServer(ctx context.Context, d Server, o Options) (store.Store, error) {
	o = o.withDefaults()
	return open(ctx, d, o, func(c *core) database { return newServer(c, d, o.Cluster) })
}

func open(ctx context.Context, d Dialect, o Options, connect func(*core) database) (store.Store, error) {
	c := &core{dialect: d, texts: d.Texts(), log: o.Logger}
	b := &Backend{core: c, database: connect(c), poll: o.PollInterval}
	s := engine.New(ctx, b, o.Logger)
	err := s.Do(ctx, "set up", func(ctx context.Context) error { return b.begin(ctx, o) })
	if err != nil {
		if closing := s.Close(context.WithoutCancel(ctx)); closing != nil {
			err = fmt.Errorf("%w (and %w)", err, closing)
		}
		return nil, err
	}
	return s, nil
}

// Of is the backend of a store that Open or OpenServer made.
func Of(s store.Store) *Backend { return s.(*engine.Store).Backend().(*Backend) }

// begin finds or makes the tables.
func (b *Backend) begin(ctx context.Context, o Options) error {
	if !engine.ValidCluster(o.Cluster) {
		return fmt.Errorf(
			"cluster %q: %w: want at most 63 letters, digits, '.', '-' and '_'", o.Cluster, store.ErrInvalid,
		)
	}
	b.sql = newStatements(o.Cluster, b.dialect)
	if err := b.database.prepare(ctx); err != nil {
		return err
	}
	tables := &schema{b.core, b.database}
	if o.Existing {
		return tables.look(ctx)
	}
	return tables.setUp(ctx)
}

func (o Options) withDefaults() Options {
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	return o
}

// Traits implements [engine.Backend]. A disk that hangs holds up a driver.
func (*Backend) Traits() engine.Traits {
	return engine.Traits{MaxChanges: store.MaxBatch, Detached: true}
}

// CAS implements [engine.Backend]: one transaction.
func (b *Backend) CAS(ctx context.Context, changes []store.Change, attempt int) ([]engine.Result, error) {
	return b.database.cas(ctx, changes, attempt)
}

// Confirm implements [engine.Confirmer].
func (b *Backend) Confirm(ctx context.Context, changes []store.Change) error {
	return b.database.confirm(ctx, changes)
}

// Close implements [engine.Backend].
func (b *Backend) Close(ctx context.Context) error { return b.database.close(ctx) }
