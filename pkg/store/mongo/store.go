package mongo

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// backend keeps documents in one database, under one cluster's name. It implements [engine.Backend].
type backend struct{ *setup }

// Open connects to the database and checks that the user may do what will be needed. It makes what is missing:
// collections, indexes, the version of the layout. Any number of processes may do so at once. It waits for a primary no
// longer than the operation time-out, or the context.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached: try again). ErrInvalid is about the URI, the credentials, privileges that the user lacks, a name, or the way
// locks are sharded. They never hold the password.
func Open(ctx context.Context, opts Options) (store.Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("open MongoDB store: %w", err)
	}
	b := newBackend(opts)
	s := engine.New(ctx, b, opts.Logger)
	err := s.Do(ctx, "open MongoDB store "+Redact(opts.URI), func(ctx context.Context) error {
		if err := b.connect(ctx, opts); err != nil {
			return err
		}
		return b.setUp(ctx, opts.Existing)
	})
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// newBackend is on a database that was not reached yet.
func newBackend(opts Options) *backend {
	return &backend{&setup{reader: &reader{access: &access{
		log: opts.Logger, cluster: opts.Cluster, timeout: opts.OperationTimeout, secrets: secretParams.Of(opts.URI),
	}}}}
}

// Traits implements [engine.Backend].
func (b *backend) Traits() engine.Traits { return engine.Traits{Timeout: b.timeout} }

// Problems says what an operator should know about this database: no replica set, arbiters. It was found out by Open.
func (b *backend) Problems() []store.Problem { return b.problems }

// Translate implements [engine.Backend].
func (b *backend) Translate(doing string, err error) error { return b.translate(doing, err) }

// Close implements [engine.Backend].
func (b *backend) Close(ctx context.Context) error { return b.disconnect(ctx) }
