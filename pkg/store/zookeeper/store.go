package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

var errClosed = adapter.ErrClosed

// A Store keeps documents in znodes of one ensemble, under one cluster's name. It uses one connection. Its methods may
// be called concurrently.
type Store struct {
	*access
	hub    *hub
	caches map[store.Kind]*cache
	reader *reader
	writer *writer
	setup  *setup
}

var _ store.Store = (*Store)(nil)

// Open connects and checks that the znodes are there, or, unless Options.Existing, makes them. Any number of processes
// may do so at once. It waits for a server no longer than the operation timeout, or the context.
//
// Errors wrap [store.ErrInvalid] (the URI, rights, a chroot that is not there, a server too old, a certificate that is
// not trusted), [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not reached, or no majority:
// try again). They never hold the password.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	u, err := o.parse()
	if err != nil {
		return nil, fmt.Errorf("open ZooKeeper store: %w", err)
	}
	what := "open ZooKeeper store " + storeuri.Secrets(nil).Redact(o.URI)
	s, err := newStore(ctx, o, u)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	bounded, release := s.life.Bound(ctx)
	defer release()
	if err := s.setup.open(bounded, o.Existing); err != nil {
		_ = s.Close(context.WithoutCancel(ctx))
		return nil, s.translate(what, err)
	}
	return s, nil
}

// newStore puts the parts of a store together, on an ensemble that was not reached yet.
func newStore(ctx context.Context, o Options, u storeuri.URI) (*Store, error) {
	files, err := u.TLS(false)
	if err != nil {
		return nil, err
	}
	config, err := files.Config()
	if err != nil {
		return nil, err
	}
	root := ""
	if u.Path != "" {
		root = "/" + u.Path
	}
	life := adapter.NewLife(ctx, o.OperationTimeout)
	a := &access{
		layout: layout{root + "/" + o.Database + "/" + escape(o.Cluster)}, acl: zk.WorldACL(zk.PermAll),
		life: life, log: o.Logger, unreadable: adapter.NewUnreadable(o.Logger),
	}
	if u.User != "" {
		a.acl = zk.DigestACL(zk.PermAll, u.User, u.Password)
	}
	h := &hub{access: a, watchers: map[*watcher]struct{}{}, caches: map[store.Kind]*cache{}}
	for _, kind := range store.Kinds() {
		h.caches[kind] = newCache(a, kind, h.changed)
	}
	d := dialer{config}
	a.client, err = connect(context.WithoutCancel(ctx), u, d, o.Logger, h.event)
	if err != nil {
		return nil, err
	}
	r := &reader{a, &barrier{access: a}}
	set := &setup{access: a, dialer: d, hosts: slices.Clone(u.Hosts), chroot: root, database: root + "/" + o.Database}
	w := &writer{
		reader: r, setup: set, live: &liveSessions{revs: map[string]int64{}},
		counters: &counters{turns: map[string]*turn{}},
	}
	return &Store{access: a, hub: h, caches: h.caches, reader: r, writer: w, setup: set}, nil
}

// Read returns documents, linearizably. It costs one small write and one request for each ID, which wait together.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	found, err := s.reader.read(ctx, kind, ids)
	if err != nil {
		return store.Reply{}, s.translate("read "+string(kind), err)
	}
	return s.reply(found), nil
}

// List answers from the process's cache of the kind, after one request has shown that it is as new as the server at
// hand. Documents that changed since are read first. The first List of a kind reads all of them, one request each.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	m := s.caches[kind]
	if err := m.refresh(ctx); err != nil {
		return store.Reply{}, s.translate("list "+string(kind), err)
	}
	return s.reply(m.find(q)), nil
}

// Apply performs each change on its own: each is one multi, and many of them are on their way at once.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	return s.writer.apply(ctx, changes), nil
}

// Watch sends notifications of what an interest asks for. A lost connection or session costs a Resync, never the watch.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	n, err := s.hub.watch(ctx, in)
	if err != nil {
		return nil, s.translate("watch", err)
	}
	return n, nil
}

// RaiseFloor makes every later [store.Reply.Floor] at least floor, also those of other clients. See
// [store.RaiseFloor].
func (s *Store) RaiseFloor(ctx context.Context, floor int64) error {
	ctx, release := s.life.Bound(ctx)
	defer release()
	return s.translate("raise the floor", s.setup.raiseFloor(ctx, func() int64 { return floor }))
}

// Problems says what an operator should know about this ensemble. It was found out by Open.
func (s *Store) Problems() []store.Problem { return slices.Clone(s.setup.problems) }

// Close ends watches and calls under way, and the session. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	if s.life.End() {
		s.client.close(ctx)
	}
	return nil
}
