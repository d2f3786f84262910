// Package memory keeps the documents of package elect in memory, for tests and simulations of one process.
//
// [New] makes an empty database and a first client of it; [Store.Client] makes further clients. Each has its own Close
// and its own faults, so that one replica can be cut off while the others go on. Nothing is kept when the process ends.
//
// It works inside a testing/synctest bubble. Every wait is on a context or a timer of the bubble. The goroutine of a
// watch ends with its context.
package memory

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Store is one client of a database in memory. Its methods may be called concurrently.
type Store struct {
	driver.Store

	client *client
}

// Option changes what [New] makes.
type Option func(*database)

// WithClock makes now the store's clock. The default is [time.Now].
func WithClock(now func() time.Time) Option {
	return func(db *database) { db.now = now }
}

// New makes an empty database and returns a client of it.
func New(options ...Option) *Store {
	db := &database{now: time.Now, tables: map[driver.Kind]*table{}, watchers: map[*watcher]struct{}{}}
	for _, info := range driver.Table() {
		db.tables[info.Kind] = newTable(info)
	}
	for _, option := range options {
		option(db)
	}
	return db.open()
}

// Client returns one more client of the same database. Closing it, and the faults it is given, concern it alone; it
// starts without faults.
func (s *Store) Client() *Store { return s.client.db.open() }

// Fault makes f decide over every later call of this client; nil ends that. f runs on the caller's goroutine, several
// at once, before anything of the call has happened; it may block only as a synctest bubble allows.
func (s *Store) Fault(f func(Call) Verdict) {
	if f == nil {
		s.client.fault.Store(nil)
		return
	}
	s.client.fault.Store(&f)
}

func (db *database) open() *Store {
	c := &client{db: db, closed: make(chan struct{})}
	return &Store{dbstore.New(context.Background(), c, logr.Discard()), c}
}
