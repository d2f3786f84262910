package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// Defaults of [Options].
const (
	DefaultCluster      = adapter.DefaultCluster
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
	*core
	engine engine
	poll   time.Duration
	life   *adapter.Life
	broken atomic.Bool // a watch has ended, and none has sent a document since
	ending
}

// ending is what Close does once.
type ending struct {
	once  sync.Once
	ended chan struct{} // closed when Close has let go of everything
	err   error
}

// Open makes a store of a database in a file and sets its tables up, all within ctx. The database is the store's from
// then on: also when Open fails it is closed. Errors wrap [store.ErrInvalid] when it is no use to try again,
// [store.ErrSchema] when another version of the program set it up, else [store.ErrUnavailable].
func Open(ctx context.Context, db *sql.DB, d File, o Options) (*Store, error) {
	o = o.withDefaults()
	return open(ctx, d, o, func(c *core) engine { return newFile(c, db, d) })
}

// OpenServer is Open for a database that is reached over a network. The server is the store's from then on: also when
// OpenServer fails it is closed.
func OpenServer(ctx context.Context, d Server, o Options) (*Store, error) {
	o = o.withDefaults()
	return open(ctx, d, o, func(c *core) engine { return newServer(c, d, o.Cluster) })
}

func open(ctx context.Context, d Dialect, o Options, connect func(*core) engine) (*Store, error) {
	c := &core{dialect: d, texts: d.Texts(), found: adapter.NewUnreadable(o.Logger), log: o.Logger}
	s := &Store{
		core: c, engine: connect(c), poll: o.PollInterval, life: adapter.NewLife(ctx, 0),
		ending: ending{ended: make(chan struct{})},
	}
	_, err := await(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.begin(ctx, o) })
	if err != nil {
		err = s.translate("set up", err)
		if closing := s.Close(context.WithoutCancel(ctx)); closing != nil {
			err = fmt.Errorf("%w (and %w)", err, closing)
		}
		return nil, err
	}
	return s, nil
}

// begin finds or makes the tables.
func (s *Store) begin(ctx context.Context, o Options) error {
	if !adapter.ValidCluster(o.Cluster) {
		return fmt.Errorf(
			"cluster %q: %w: want at most 63 letters, digits, '.', '-' and '_'", o.Cluster, store.ErrInvalid,
		)
	}
	s.sql = newStatements(o.Cluster, s.dialect)
	if err := s.engine.prepare(ctx); err != nil {
		return err
	}
	tables := &schema{s.core, s.engine}
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

// Close implements [store.Store]. It waits for the calls under way to let go of the database, no longer than ctx.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() {
		go func() {
			defer close(s.ended)
			s.life.End()
			s.err = s.translate("close", s.engine.close(ctx))
		}()
	})
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return s.translate("close", ctx.Err())
	}
}

// sayWhy is how long a call whose context has ended has to say what it waited for.
const sayWhy = 10 * time.Millisecond

// await runs f and waits for it hardly longer than ctx: a disk that hangs holds up the driver, but not the caller. f
// goes on until it notices; what it writes then is a write of unknown outcome.
func await[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	ctx, release := s.life.Bound(ctx)
	if !s.life.Go(func() {
		defer release()
		value, err := f(ctx)
		replies <- reply{value, err}
	}) {
		release()
		return none, adapter.ErrClosed
	}
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
	}
	moment := time.NewTimer(sayWhy)
	defer moment.Stop()
	select {
	case r := <-replies: // its release has ended the context, or it says what it waited for
		return r.value, r.err
	case <-moment.C:
		return none, context.Cause(ctx)
	}
}
