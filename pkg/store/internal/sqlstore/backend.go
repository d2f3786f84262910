// Package sqlstore keeps the documents of package elect in a SQL database. It imports no driver: packages beside it
// open databases, and what differs from one to the next is a [File] or a [Server].
//
// There is a table for each kind of document; their names begin with the cluster's, so that several clusters may share
// a database. A batch is one transaction, in which each change is tested and has its own outcome.
//
// A [File] has one writer at a time. Each change is read, judged and written. A [Server] has many, and each statement
// costs the way there and back. So a change is a statement with its condition, and behind it a query for the document
// as it is then; no statement needs the answer of another, and a batch is sent at once. The query is a statement of its
// own: in the same one it would show what was there before a wait for somebody else's row.
//
// Somebody may lock a table for long. Heartbeats, and reads of sessions, need no other table than theirs, and a
// [Server] has a [Lane] for them.
//
// What watchers care for is noted in a short log, by the writer of a file and by triggers of a server; heartbeats are
// not in it. A watch reads the log when a [Signal] says so.
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Defaults of [Options].
const (
	DefaultCluster      = dbstore.DefaultCluster
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

// Backend is one client of a SQL database. It implements [dbstore.Backend].
type Backend struct {
	*core
	database database
	poll     time.Duration
	mender   mender
}

// Open makes a store of a database in a file and sets its tables up, all within ctx. The database is the store's from
// then on: also when Open fails it is closed. Errors wrap [driver.ErrInvalid] when it is no use to try again,
// [driver.ErrSchema] when another version of the program set it up, else [driver.ErrUnavailable].
func Open(ctx context.Context, db *sql.DB, d File, o Options) (driver.Store, error) {
	s, err := open(ctx, d, o.withDefaults(), func(c *core) database { return newFile(c, db, d) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenServer is Open for a database that is reached over a network. The server is the store's from then on: also when
// OpenServer fails it is closed.
func OpenServer(ctx context.Context, d Server, o Options) (driver.Store, error) {
	o = o.withDefaults()
	s, err := open(ctx, d, o, func(c *core) database { return newServer(c, d, o.Cluster) })
	if err != nil {
		return nil, err
	}
	if !o.Existing {
		s.KeepLooking() //nolint:contextcheck // it lasts as long as the store
	}
	return s, nil
}

func open(ctx context.Context, d Dialect, o Options, connect func(*core) database) (*dbstore.Store, error) {
	c := &core{dialect: d, texts: d.Texts(), log: o.Logger}
	b := &Backend{core: c, database: connect(c), poll: o.PollInterval}
	b.mender.begin()
	s := dbstore.New(ctx, b, o.Logger)
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
func Of(s driver.Store) *Backend { return s.(*dbstore.Store).Backend().(*Backend) }

// begin finds or makes the tables.
func (b *Backend) begin(ctx context.Context, o Options) error {
	if !dbstore.ValidCluster(o.Cluster) {
		return fmt.Errorf(
			"cluster %q: %w: want at most 63 letters, digits, '.', '-' and '_'", o.Cluster, driver.ErrInvalid,
		)
	}
	b.sql = newStatements(o.Cluster, b.dialect)
	if err := b.database.prepare(ctx); err != nil {
		return err
	}
	tables := &schema{b.core, b.database}
	b.mender.tables, b.mender.makes = tables, !o.Existing
	b.mender.mends.Every, b.mender.looks.Every = mendEvery, lookEvery
	find := tables.make
	if o.Existing {
		find = tables.find
	}
	taken, err := find(ctx)
	if err != nil {
		return err
	}
	return tables.identify(ctx, taken)
}

func (o Options) withDefaults() Options {
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	return o
}

// Traits implements [dbstore.Backend]. A disk that hangs holds up a driver.
func (*Backend) Traits() dbstore.Traits {
	return dbstore.Traits{MaxChanges: driver.MaxBatch, Detached: true}
}

// CAS implements [dbstore.Backend]: one transaction.
func (b *Backend) CAS(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	results, err := b.database.cas(ctx, changes, attempt)
	b.mender.tend() //nolint:contextcheck // it may outlast the call
	return results, err
}

// Confirm implements [dbstore.Confirmer].
func (b *Backend) Confirm(ctx context.Context, changes []driver.Change) error {
	return b.database.confirm(ctx, changes)
}

// Close implements [dbstore.Backend].
func (b *Backend) Close(ctx context.Context) error {
	b.mender.end()
	return b.database.close(ctx)
}

// core is a database as everything here knows it: how it wants to be spoken to, and the texts of one cluster.
type core struct {
	dialect Dialect
	texts   Texts
	sql     statements
	log     logr.Logger
	state   logState
	// high is the largest revision of a counter, as the last read showed it that looked.
	high atomic.Int64
}

// database runs statements on a [File] or a [Server].
type database interface {
	// prepare comes before anything else.
	prepare(ctx context.Context) error
	query(ctx context.Context, lane Lane, queries ...Statement) error
	cas(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error)
	// confirm returns nil once what the changes found is durable.
	confirm(ctx context.Context, changes []driver.Change) error
	// write runs statements as one transaction, once.
	write(ctx context.Context, statements ...Statement) error
	// setUp calls f while no one else is within one.
	setUp(ctx context.Context, f func(run Run) error) error
	signal(ctx context.Context, every time.Duration) (Signal, error)
	inspect(ctx context.Context) (driver.Inspection, error)
	// now is the clock of a database that has none of its own, else 0.
	now() int64
	close(ctx context.Context) error
}

// retry tries f until it ends otherwise than because another connection is in the way, or until ctx ends. Then it
// returns the reason it last met.
func (c *core) retry(ctx context.Context, f func() error) error {
	var reason error
	for {
		err := f()
		switch {
		case err == nil:
			return nil
		case c.dialect.Busy(err):
			reason = err
		case reason != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", err, reason)
		default:
			return err
		}
		// At random, so that waiting processes do not meet again.
		pause := time.Duration(1+rand.IntN(4)) * time.Millisecond //nolint:gosec // no secret hangs on it
		if clock.Sleep(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), reason)
		}
	}
}

// Translate implements [dbstore.Backend]: it makes an error of the driver one of package store, and names the database.
func (c *core) Translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, driver.ErrOther) {
		return fmt.Errorf("%s: %s: %w", c.dialect, doing, err)
	}
	return fmt.Errorf("%s: %s: %w: %w", c.dialect, doing, Sentinel(c.dialect, err), err)
}

// Sentinel is the error of package store that an error wraps or comes down to.
func Sentinel(d Dialect, err error) error {
	switch {
	case errors.Is(err, driver.ErrSchema):
		return driver.ErrSchema
	case errors.Is(err, driver.ErrInvalid):
		return driver.ErrInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, dbstore.ErrClosed),
		errors.Is(err, sql.ErrConnDone):
		return driver.ErrUnavailable
	}
	return d.Classify(err)
}

// get is a query for one document, which it puts into d.
func (c *core) get(kind driver.Kind, id string, d **driver.Doc) Statement {
	return Statement{Text: c.sql.kinds[kind].get, Args: []any{id}, Row: func(row Row) error {
		one, err := scan(kind, row)
		*d = &one
		return err
	}}
}

// docs is a query for documents, which it adds to a page.
func (c *core) docs(kind driver.Kind, text string, args []any, into *dbstore.Page) Statement {
	return Statement{Text: text, Args: args, Row: func(row Row) error {
		d, err := scan(kind, row)
		if err == nil {
			into.Docs = append(into.Docs, d)
		}
		return err
	}}
}

// Inspector is a [File] that can say what its database is and how it is set up.
type Inspector interface {
	// Inspect asks on a connection of the store's own, so that settings of connections are seen as well.
	Inspect(ctx context.Context, conn *sql.Conn) (driver.Inspection, error)
}

// Inspect says what the database is and how it is set up, as far as it can say so. See [store.Inspect].
func (b *Backend) Inspect(ctx context.Context) (found driver.Inspection, err error) {
	err = b.retry(ctx, func() error {
		found, err = b.database.inspect(ctx)
		return err
	})
	return found, err
}

// Look implements [dbstore.Looker].
func (b *Backend) Look(ctx context.Context) error {
	if server, ok := b.dialect.(Server); ok {
		return server.Look(ctx)
	}
	return nil
}

// Waits implements [dbstore.Waiter].
func (b *Backend) Waits(ctx context.Context) (string, error) {
	if server, ok := b.dialect.(Server); ok {
		return server.Waits(ctx)
	}
	return "", nil
}

// Problems are those of the server, as the last look has found them, and those of the tables. See [store.Problems].
func (b *Backend) Problems() []driver.Problem {
	var all []driver.Problem
	if server, ok := b.dialect.(Server); ok {
		all = server.Problems()
	}
	return append(all, b.problems()...)
}

func (s *server) inspect(ctx context.Context) (driver.Inspection, error) {
	return s.dialect.Inspect(ctx)
}

func (f *file) inspect(ctx context.Context) (driver.Inspection, error) {
	dialect, ok := f.dialect.(Inspector)
	if !ok {
		return driver.Inspection{}, nil
	}
	conn, err := f.newConn(ctx)
	if err != nil {
		return driver.Inspection{}, err
	}
	defer func() { _ = conn.Close() }()
	return dialect.Inspect(ctx, conn)
}
