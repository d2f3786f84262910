package mongo

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// A Store keeps documents in one database, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	*access
	reader *reader
	writer *writer
	setup  *setup
	life   *adapter.Life
	broken atomic.Bool // see feed
}

var _ store.Store = (*Store)(nil)

// Open connects to the database and checks that the user may do what will be needed. It makes what is missing:
// collections, indexes, the version of the layout. Any number of processes may do so at once. It waits for a primary no
// longer than the operation time-out, or the context.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached: try again). ErrInvalid is about the URI, the credentials, privileges that the user lacks, a name, or the way
// locks are sharded. They never hold the password.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("open MongoDB store: %w", err)
	}
	s := newStore(ctx, opts)
	what := "open MongoDB store " + Redact(opts.URI)
	ctx, cancel := s.life.Bound(ctx)
	defer cancel()
	if err := s.connect(ctx, opts); err != nil {
		s.life.End()
		return nil, s.translate(what, err)
	}
	if err := s.setup.setUp(ctx, opts.Existing); err != nil {
		_ = s.Close(ctx)
		return nil, s.translate(what, err)
	}
	return s, nil
}

// newStore puts the parts of a store together, on a database that was not reached yet.
func newStore(ctx context.Context, opts Options) *Store {
	a := &access{
		log: opts.Logger, cluster: opts.Cluster, timeout: opts.OperationTimeout, secrets: secretParams.Of(opts.URI),
	}
	r := &reader{access: a, unreadable: adapter.NewUnreadable(opts.Logger)}
	return &Store{
		access: a, reader: r, writer: &writer{r}, setup: &setup{reader: r},
		life: adapter.NewLife(ctx, opts.OperationTimeout),
	}
}

// Problems says what an operator should know about this database: no replica set, arbiters. It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.setup.problems) }

// Close ends watches and calls under way and closes all connections. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	if !s.life.End() {
		return nil
	}
	return s.translate("close MongoDB store", s.disconnect(ctx))
}
