package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// A Store keeps documents in one database, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	log      logr.Logger
	cluster  string
	timeout  time.Duration
	secrets  []string // of the URI, kept out of errors
	database string

	// Heartbeats and all else of sessions go over a client of their own, so that a batch of claims which holds every
	// connection cannot delay them.
	client, heartbeats *mongo.Client
	clock              clock
	standalone         bool
	problems           []store.Problem

	life     context.Context // ended by Close: calls under way fail
	end      context.CancelCauseFunc
	watchers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	logged map[string]struct{} // unreadable documents that were logged
}

var _ store.Store = (*Store)(nil)

// errClosed is the cause of contexts that Close ended.
var errClosed = errors.New("the store is closed")

// Open connects to the database, checks that the user may do what will be needed, and makes what is missing: collections,
// indexes, the version of the layout. Any number of processes may do so at once. It waits for a primary no longer than the operation time-out, or the context.
//
// Errors wrap [store.ErrInvalid] (the URI, the credentials, privileges that the user lacks, a name, the way locks are sharded),
// [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not reached: try again). They never hold the password.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("open MongoDB store: %w", err)
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Store{
		log: opts.Logger, cluster: opts.Cluster, timeout: opts.OperationTimeout, secrets: secrets(opts.URI),
		life: life, end: end, logged: map[string]struct{}{},
	}
	what := "open MongoDB store " + Redact(opts.URI)
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := s.connect(ctx, opts); err != nil {
		end(errClosed)
		return nil, s.translate(what, err)
	}
	if err := s.setUp(ctx, opts.ReadOnly); err != nil {
		_ = s.Close(ctx)
		return nil, s.translate(what, err)
	}
	return s, nil
}

// Problems tells what an operator should know about this database: no replica set, arbiters. It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.problems) }

// Close ends watches and calls under way and closes all connections. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.end(errClosed)
	s.watchers.Wait()
	err := errors.Join(s.client.Disconnect(ctx), s.heartbeats.Disconnect(ctx))
	return s.translate("close MongoDB store", err)
}

// onClose has f called when the store is closed, unless stopped before.
func (s *Store) onClose(f func()) (stop func() bool) { return context.AfterFunc(s.life, f) }

// bound gives a call its deadline, if it has none, and ends it when the store is closed.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := s.onClose(func() { cancel(errClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	if _, has := ctx.Deadline(); has {
		return ctx, release
	}
	ctx, cancelTimeout := context.WithTimeout(ctx, s.timeout)
	return ctx, func() {
		cancelTimeout()
		release()
	}
}

// collection is where documents of a kind are, by the client they go over.
func (s *Store) collection(kind store.Kind) *mongo.Collection {
	client := s.client
	if kind == store.KindSession {
		client = s.heartbeats
	}
	return client.Database(s.database).Collection(collectionName(s.cluster, kind))
}

// collectionName is CLUSTER.KIND in the plural.
func collectionName(cluster string, kind store.Kind) string {
	return cluster + "." + kind.Info().Plural
}
