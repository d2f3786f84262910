// Package zookeeper keeps documents in Apache ZooKeeper. Its driver takes URIs that begin with zk:.
//
//	zk://[USER:PASSWORD@]HOST[:PORT],…[/CHROOT][?tls=true&tlsCAFile=FILE&tlsCertFile=FILE&tlsKeyFile=FILE]
//
// # Layout
//
// A document is a znode with one child, whose name is its revision, and one entry in an index, which says the revision
// once more. A change is one multi: delete the child of the old revision, create that of the new, the same in the
// index, and set the data. It fails as a whole when the old child is not there. The znode's own version is no
// condition: it begins at 0 again when a znode is deleted and created, and revisions do not.
//
// # Promises
//
// A write is acknowledged once a majority of the servers has it on disk. Read is linearizable: it waits for a small
// write first, since a leader that was deposed still answers ZooKeeper's sync. A user who may only read gets the sync.
// List shows the state of one server, which is never rolled back and may be behind by a moment.
//
// Neither sessions nor ephemeral znodes of ZooKeeper say anything about a lease of ours. A client whose session expired
// connects again and goes on; its watches send a Resync.
//
// [driver.Reply.Floor] is the number of the last transaction plus a base that is kept in a znode. Each Open raises the
// base to 32 times the clock, so that tokens rise after a loss of all files, too. A client whose session expired may
// connect to a server that is behind the last one: a List may then show a state that was seen before.
package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// backend keeps documents in znodes of one ensemble, under one cluster's name. It uses one connection. It implements
// [dbstore.Backend].
type backend struct {
	*writer
	hub *hub
}

// Open connects and checks that the znodes are there, or, unless Options.Existing, makes them. Any number of processes
// may do so at once. It waits for a server no longer than the operation timeout, or the context.
//
// Errors wrap [driver.ErrInvalid] (the URI, rights, a chroot that is not there, a server too old, a certificate that is
// not trusted), [driver.ErrSchema] (set up by another version), or [driver.ErrUnavailable] (not reached, or no majority:
// try again). They never hold the password.
func Open(ctx context.Context, o Options) (driver.Store, error) {
	o, err := registered{}.Parse(o)
	if err != nil {
		return nil, fmt.Errorf("open ZooKeeper store: %w", err)
	}
	what := "open ZooKeeper store " + storeuri.Secrets(nil).Redact(o.URI)
	b, err := newBackend(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s := dbstore.New(ctx, b, o.Logger)
	if err := s.Do(ctx, what, func(ctx context.Context) error { return b.setup.open(ctx, o.Existing) }); err != nil {
		_ = s.Close(context.WithoutCancel(ctx)) // why it cannot be opened is what counts
		return nil, err
	}
	return s, nil
}

// newBackend is on an ensemble that was not reached yet.
func newBackend(ctx context.Context, o Options) (*backend, error) {
	u, err := parseURI(o.URI)
	if err != nil {
		return nil, err
	}
	source, err := newSource(o)
	if err != nil {
		return nil, err
	}
	root := ""
	if u.Path != "" {
		root = "/" + u.Path
	}
	a := &access{
		layout: layout{root + "/" + o.Database + "/" + escape(o.Cluster)}, timeout: o.Timeout, log: o.Logger,
	}
	a.causes = causes(u.User, a.base)
	a.acl = func() []zk.ACL { return a.client.logins.acl() }
	h := &hub{access: a, watchers: map[*watcher]struct{}{}, caches: map[driver.Kind]*cache{}}
	for _, kind := range driver.Kinds() {
		h.caches[kind] = newCache(a, kind, h.changed)
	}
	d := dialer{source}
	a.client, err = connect(context.WithoutCancel(ctx), u, d, o.Logger, h.event)
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	r := &reader{a, &barrier{access: a, running: running, end: end}}
	set := &setup{access: a, dialer: d, hosts: slices.Clone(u.Hosts), chroot: root, database: root + "/" + o.Database}
	w := &writer{reader: r, setup: set, live: &liveSessions{revs: map[string]int64{}}}
	for i := range w.turns {
		w.turns[i] = make(chan struct{}, 1)
	}
	return &backend{writer: w, hub: h}, nil
}

// Traits implements [dbstore.Backend].
func (b *backend) Traits() dbstore.Traits { return dbstore.Traits{Timeout: b.timeout} }

// Get implements [dbstore.Backend]. It costs one small write and one request for each id, which wait together.
func (b *backend) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	page, err := b.read(ctx, kind, ids)
	return b.dated(page), err
}

// Scan implements [dbstore.Backend]. It answers from the process's cache of the kind, after one request has shown that
// it is as new as the server at hand. Documents that changed since are read first. The first Scan of a kind reads all
// of them, one request each.
func (b *backend) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	m := b.hub.caches[kind]
	if err := m.refresh(ctx); err != nil {
		return dbstore.Page{}, err
	}
	return b.dated(m.find(q)), nil
}

// RaiseFloor makes every later [driver.Reply.Floor] at least floor, also those of other clients. See
// [driver.RaiseFloor].
func (b *backend) RaiseFloor(ctx context.Context, floor int64) error {
	return b.setup.raiseFloor(ctx, func() int64 { return floor })
}

// Problems says what an operator should know about this ensemble.
func (b *backend) Problems() []driver.Problem { return b.setup.problems.All() }

// Look implements [dbstore.Looker].
func (b *backend) Look(ctx context.Context) error {
	b.setup.look(ctx)
	return ctx.Err()
}

// Translate implements [dbstore.Backend].
func (b *backend) Translate(doing string, err error) error { return b.causes.Translate(doing, err) }

// Close implements [dbstore.Backend]. It ends the session.
func (b *backend) Close(ctx context.Context) error {
	b.barrier.close()
	b.client.close(ctx)
	return nil
}
