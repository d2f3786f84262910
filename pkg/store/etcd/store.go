package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// parts are what every call needs: how keys are named, the way to etcd, and what is known of it.
type parts struct {
	keys   keys
	link   *link
	docs   *documents
	floors *floors
	errs   *translator
	log    logr.Logger
}

// A Store keeps documents in one etcd, under one cluster's name. Its methods may be called concurrently.
type Store struct {
	parts
	tidies   bool // it takes away entries of indexes that edits by other tools left
	feed     *feed
	life     *adapter.Life
	problems []store.Problem
}

var _ store.Store = (*Store)(nil)

// Open connects to the first member that answers, and writes the version of the layout if it is not there. Any number
// of processes may do so at once. It waits no longer than the time-out, or the context.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached, no leader: try again). ErrInvalid is about the URI, TLS, the log-in, permissions that the user lacks, or an
// etcd that is too old. They never hold the password.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := o.read()
	if err != nil {
		return nil, fmt.Errorf("open etcd store: %w", err)
	}
	p := parts{keys: newKeys(s.Prefix, s.Cluster), log: s.Logger}
	p.docs = &documents{keys: p.keys, known: newKnown(), unreadable: adapter.NewUnreadable(s.Logger)}
	p.errs = &translator{root: p.keys.root, user: s.uri.User, secrets: secrets.Of(s.URI)}
	what := "open etcd store " + secrets.Redact(s.URI)
	life := adapter.NewLife(ctx, s.Timeout)
	ctx, release := life.Bound(ctx)
	defer release()
	if p.link, err = connect(ctx, s, p.errs); err != nil {
		life.End()
		return nil, p.errs.translate(what, err)
	}
	p.floors = &floors{link: p.link, key: p.keys.floor()}
	opened := &Store{
		parts: p, feed: newFeed(p, life, s.Timeout), life: life,
		tidies: !s.Existing, // a guard is in a hurry, and who only looks may not write
	}
	if err = opened.setUp(ctx, s.Existing); err == nil && !s.Existing { // a guard is in a hurry
		opened.problems, err = opened.findProblems(ctx)
	}
	if err != nil {
		return nil, errors.Join(p.errs.translate(what, err), opened.Close(ctx))
	}
	return opened, nil
}

// Read returns the documents with these ids, linearizably: the member asks the leader how far it must be.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	v := &view{parts: s.parts}
	docs, err := v.byID(ctx, kind, slices.Compact(slices.Sorted(slices.Values(ids))))
	if err != nil {
		return store.Reply{}, s.errs.translate(fmt.Sprintf("read %s", kind), err)
	}
	return v.dated(store.Reply{Docs: docs}), nil
}

// List returns the documents that match, all as of one revision. It is linearizable as well.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	reply, err := listed(ctx, s.parts, s.tidies, kind, q)
	return reply, s.errs.translate(fmt.Sprintf("list %s", kind), err)
}

// Apply performs each change on its own. Up to 100 are one request; several requests of a longer list fly at once.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	return (&writer{s.parts}).apply(ctx, changes), nil
}

// Watch joins the one watch of this store. It continues on another member where it broke off, without loss.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	n, err := s.feed.join(ctx, in)
	if err != nil {
		return nil, s.errs.translate("watch", err)
	}
	return n, nil
}

// RaiseFloor implements what [store.RaiseFloor] asks for.
func (s *Store) RaiseFloor(ctx context.Context, least int64) error {
	ctx, release := s.life.Bound(ctx)
	defer release()
	return s.errs.translate("raise the floor", s.floors.raise(ctx, least, false))
}

// Problems says what an operator should know about this etcd: that its history is not compacted, that it is nearly
// full, alarms, that it refuses watches. It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.problems) }

// Close ends watches and calls under way and closes the connection. Closing twice does nothing.
func (s *Store) Close(context.Context) error {
	if !s.life.End() {
		return nil
	}
	if err := s.link.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return s.errs.translate("close etcd store", err)
	}
	return nil
}
