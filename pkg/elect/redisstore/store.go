package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/internal/adapter"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// DefaultTimeout bounds calls whose context has no deadline, unless the [store.Config] says otherwise.
const DefaultTimeout = 3 * time.Second // about a sixth of the default lease

// Store keeps documents in one Redis database, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	*access
	life     *adapter.Life
	hub      *hub
	problems []store.Problem
	looked   atomic.Int64 // entries of indexes that the last List has looked at
}

var _ store.Store = (*Store)(nil)

// access is the way to the database.
type access struct {
	finder     *finder
	keys       keyspace
	channel    string
	nodes      int // the master among them
	timeout    time.Duration
	secrets    []string // of the URI, kept out of errors
	look       []any
	unreadable *adapter.Unreadable
	log        logr.Logger
	warned     atomic.Pointer[string] // what was logged last, see warn
	course     course

	// Sessions have a connection of their own: claims in bulk cannot delay heartbeats.
	sessions, others *lane
}

// laneOf is the connection for documents of a kind.
func (a *access) laneOf(kind store.Kind) *lane {
	if kind == store.KindSession {
		return a.sessions
	}
	return a.others
}

// Open connects to the master, checks how it is set up, and marks an empty database, all within ctx and the timeout.
// Config.Database is the number of Redis's database; left out: the URI's, else 0.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached: try again). They never hold a password.
func Open(ctx context.Context, c store.Config) (_ *Store, err error) {
	what := "open Redis store " + Redact(c.URI)
	if c.Cluster, err = adapter.Cluster(c.Cluster); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	t, err := parseTarget(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	s, err := newStore(ctx, c, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	bounded, release := s.life.Bound(ctx)
	defer release()
	if err := s.setUp(bounded, c.Existing); err != nil {
		_ = s.Close(ctx) // nothing of it is used
		return nil, s.translate(what, err)
	}
	return s, nil
}

// newStore puts the parts of a store together, on a database that was not reached yet.
func newStore(ctx context.Context, c store.Config, t target) (*Store, error) {
	files, err := t.tls.Config()
	if err != nil {
		return nil, err
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	f := &finder{target: t, tls: files, timeout: c.Timeout}
	keys := newKeyspace(c.Cluster)
	a := &access{
		finder: f, keys: keys, channel: keys.channel(t.db), nodes: t.nodes, timeout: c.Timeout,
		secrets: append(secrets().Of(c.URI), t.password, t.sentinelPassword), look: look(),
		unreadable: adapter.NewUnreadable(c.Logger), log: c.Logger, others: newLane(f),
	}
	a.sessions = a.others
	if !c.Existing {
		a.sessions = newLane(f)
	}
	s := &Store{access: a, life: adapter.NewLife(ctx, c.Timeout)}
	s.hub = newHub(a, c.Logger)
	return s, nil
}

// Problems says what an operator should know about this database. It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.problems) }

// Close ends watches and calls under way and closes all connections. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	if !s.life.End() {
		return nil
	}
	err := s.others.close(ctx)
	if s.sessions != s.others {
		err = errors.Join(err, s.sessions.close(ctx))
	}
	return s.translate("close Redis store", err)
}
