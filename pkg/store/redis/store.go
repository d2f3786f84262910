package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// DefaultTimeout bounds calls whose context has no deadline, unless the [store.Config] says otherwise.
const DefaultTimeout = 3 * time.Second // about a sixth of the default lease

// Store keeps documents in one Redis database, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	*access
	reader   *reader
	life     *adapter.Life
	hub      *hub
	problems []store.Problem
}

var _ store.Store = (*Store)(nil)

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
	ready := &setup{access: s.access}
	if err := ready.run(bounded, c.Existing); err != nil {
		_ = s.Close(ctx) // nothing of it is used
		return nil, s.translate(what, err)
	}
	s.problems = ready.problems
	s.hub.silent.Store(ready.silent)
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
		exchange: &exchange{
			keys: keys, nodes: t.nodes, named: t.master != "", timeout: c.Timeout, look: look(keys),
			log: c.Logger,
		},
		finder: f, channel: keys.channel(t.db), others: newLane(f),
		secrets:    append(secrets().Of(c.URI), t.password, t.sentinelPassword),
		unreadable: adapter.NewUnreadable(c.Logger),
	}
	a.sessions = a.others
	if !c.Existing {
		a.sessions = newLane(f)
	}
	s := &Store{access: a, reader: &reader{access: a}, life: adapter.NewLife(ctx, c.Timeout)}
	s.hub = newHub(a, c.Logger)
	return s, nil
}

// Read implements [store.Store]. A majority has what it shows, under one identity of the master.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	res, err := s.reader.read(ctx, kind, ids)
	return res, s.translate("read "+kind.Info().Plural, err)
}

// List implements [store.Store]. It shows what the master has, which may be more than what majorities have.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	res, err := s.reader.list(ctx, kind, q)
	return res, s.translate("list "+kind.Info().Plural, err)
}

// Apply implements [store.Store]. Changes of one kind, up to [store.MaxBatch], are one script and one good reply.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := validate(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	return s.apply(ctx, changes), nil
}

// Watch implements [store.Store]. Notifications carry no documents: a master that was deposed may have sent them.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	n, err := s.hub.watch(ctx, s.life, in)
	if err != nil {
		return nil, s.translate("watch", err)
	}
	return n, nil
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
