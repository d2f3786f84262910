package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/adapter"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// A Store keeps documents in one etcd, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	*access
	writer   *writer
	feed     *feed
	life     *adapter.Life
	problems []store.Problem
}

var _ store.Store = (*Store)(nil)

// Open connects to the first member that answers, and writes the version of the layout if nobody has. Any number of
// processes may do so at once. It waits no longer than the time-out, or the context.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached, no leader: try again). ErrInvalid is about the URI, TLS, the log-in, permissions that the user lacks, or an
// etcd that is too old. They never hold the password.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := o.read()
	if err != nil {
		return nil, fmt.Errorf("open etcd store: %w", err)
	}
	a := &access{
		keys: newKeys(s.Prefix, s.Cluster), log: s.Logger, timeout: s.Timeout, user: s.uri.User,
		secrets: secrets.Of(s.URI), unreadable: adapter.NewUnreadable(s.Logger), known: newKnown(),
		tidies: !s.Existing, // a guard is in a hurry, and who only looks may not write
	}
	what := "open etcd store " + secrets.Redact(s.URI)
	life := adapter.NewLife(ctx, s.Timeout)
	ctx, release := life.Bound(ctx)
	defer release()
	if err := a.connect(ctx, s); err != nil {
		life.End()
		return nil, a.translate(what, err)
	}
	opened := &Store{access: a, writer: &writer{a}, feed: newFeed(a, life), life: life}
	if err = a.setUp(ctx, s.Existing); err == nil && !s.Existing { // a guard is in a hurry
		opened.problems, err = a.findProblems(ctx)
	}
	if err != nil {
		return nil, errors.Join(a.translate(what, err), opened.Close(ctx))
	}
	return opened, nil
}

// Problems says what an operator should know about this etcd: that nobody compacts it, that it is nearly full, alarms.
// It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.problems) }

// Close ends watches and calls under way and closes the connection. Closing twice does nothing.
func (s *Store) Close(context.Context) error {
	if !s.life.End() {
		return nil
	}
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return s.translate("close etcd store", err)
	}
	return nil
}
