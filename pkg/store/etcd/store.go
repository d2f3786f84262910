// Package etcd keeps the documents of package elect in etcd: a [driver.Store] for production.
//
// # What it needs
//
// etcd 3.5.8 or newer, a single member or several, with the default --max-txn-ops of 128 or more. The user needs to
// read and write the keys below PREFIX/CLUSTER/ and nothing else. etcd keeps every revision of every key until somebody
// compacts it, so it must run with --auto-compaction-retention. docs/stores/etcd.md says how to set it up.
//
// # What it keeps
//
// One key for each document, PREFIX/CLUSTER/KIND/ID, whose value is JSON for people to read:
//
//	shardctl/default/lock/topics/topic-001 = {"rev": 1790000000000, "writer": {"session": "…", "seq": 7}, …}
//
// Keys below PREFIX/CLUSTER/.index/ find documents by owner, group, expiry and in reverse order; their values are
// empty. PREFIX/CLUSTER/.note/ has a fixed number of keys: a change of which watchers are notified overwrites one of
// them. The version of this layout is under .schema, what revisions are counted from under .floor.
//
// A document that cannot be read counts as absent and is logged; only the number of all documents counts it. One that
// is deleted with etcdctl is gone; lists take away entries of it when they meet them. One that is edited with etcdctl
// may be missing in lists until a write changes what it is listed by, since no one has adapted its index.
//
// # How it keeps the promises
//
// A change is a transaction: if the key's modification revision is as it was read, then the document and its index are
// written, else the document is returned. etcd answers after a majority has it on disk. A modification revision never
// comes back, so neither a deletion nor a late copy of a request can confuse it. Several changes are nested
// transactions of one request, each with an outcome of its own. Reads and lists are linearizable, and a list of several
// pages is one snapshot. The revisions of documents that were read or written are remembered, within bounds; for one
// that is not known the same request reads it, and a second one writes.
//
// An answer that was lost leaves the outcome Unknown. A repeat finds its own writer ID.
//
// # Revisions and time
//
// etcd shows no clock. [driver.Reply.Now] and Wall are the wall clock of this process. [driver.Reply.Floor] is etcd's own
// revision, which every write raises, above a base that is kept in the store. It is read in the same transaction as the
// documents.
//
// # What it does not use
//
// Leases of etcd, and the locks and elections that its client makes of them. An etcd that was away for longer than a
// lease would end the ownership of all tasks at once. Here only the time of this package's own leases does.
//
// # Connections
//
// A store has one connection, to one member at a time, over which go all calls and the one watch that its watchers
// share. When that member does not answer, it goes on to the next one that the URI names.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// parts are what every call needs: how keys are named, the way to etcd, and what is known of it.
type parts struct {
	keys   keys
	link   *link
	docs   *documents
	floors *floors
	causes *dbstore.Causes
	log    logr.Logger
}

// backend keeps documents in one etcd, under one cluster's name. It implements [dbstore.Backend].
type backend struct {
	parts
	timeout  time.Duration
	tidies   bool // it takes away entries of indexes that edits by other tools left
	problems dbstore.Problems
}

// Open connects to the first member that answers, and writes the version of the layout if it is not there. Any number
// of processes may do so at once. It waits no longer than the time-out, or the context.
//
// Errors wrap [driver.ErrInvalid], [driver.ErrSchema] (set up by another version), or [driver.ErrUnavailable] (not
// reached, no leader: try again). ErrInvalid is about the URI, TLS, the log-in, permissions that the user lacks, or an
// etcd that is too old. They never hold the password.
func Open(ctx context.Context, o Options) (driver.Store, error) { return openBy(ctx, o) }

// openBy connects with further options of gRPC.
func openBy(ctx context.Context, o Options, dial ...grpc.DialOption) (driver.Store, error) {
	s, err := read(o)
	if err != nil {
		return nil, fmt.Errorf("open etcd store: %w", err)
	}
	source, err := newSource(s.Options)
	if err != nil {
		return nil, fmt.Errorf("open etcd store %s: %w", secrets.Redact(s.URI), err)
	}
	p := parts{keys: newKeys(s.Database, s.Cluster), log: s.Logger}
	p.docs = &documents{keys: p.keys, known: newKnown()}
	p.causes = causes(p.keys.root, s.uri.User, source.Hidden)
	b := &backend{parts: p, timeout: s.Timeout, tidies: !s.Existing} // who only looks may not write
	opened := dbstore.New(ctx, b, s.Logger)
	ctx, done := dbstore.Bound(ctx, 2*dbstore.Limit(s.Timeout))
	defer done()
	err = opened.Do(ctx, "open etcd store "+secrets.Redact(s.URI), func(ctx context.Context) error {
		if b.link, err = p.connect(ctx, s, append(slices.Clone(dial), renewed(source, s.files.On)...)); err != nil {
			return err
		}
		b.floors = &floors{link: b.link, key: p.keys.floor()}
		if err = b.setUp(ctx, s.Existing); err == nil && !s.Existing { // a guard is in a hurry
			err = b.Look(ctx)
		}
		return err
	})
	if err != nil {
		_ = opened.Close(context.WithoutCancel(ctx)) // why it cannot be opened is what counts
		return nil, err
	}
	if !s.Existing {
		opened.KeepLooking() //nolint:contextcheck // it lasts as long as the store
	}
	return opened, nil
}

// Traits implements [dbstore.Backend].
func (b *backend) Traits() dbstore.Traits {
	return dbstore.Traits{
		Timeout: b.timeout, MaxChanges: changesPerRequest, MaxBytes: bytesPerRequest, AtOnce: requestsAtOnce,
		SharedTail: true,
	}
}

// Get implements [dbstore.Backend]. It is linearizable: the member asks the leader how far it must be.
func (b *backend) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	v := &view{parts: b.parts}
	docs, err := v.byID(ctx, kind, ids)
	return v.found(docs), err
}

// RaiseFloor implements what [driver.RaiseFloor] asks for.
func (b *backend) RaiseFloor(ctx context.Context, least int64) error {
	return b.floors.raise(ctx, least, false)
}

// Problems says what an operator should know about this etcd: that its history is not compacted, that it is nearly
// full, alarms, that it refuses watches.
func (b *backend) Problems() []driver.Problem { return b.problems.All() }

// Look implements [dbstore.Looker].
func (b *backend) Look(ctx context.Context) error {
	found, err := b.findProblems(ctx)
	if err == nil {
		b.problems.Looked(found)
	}
	return err
}

// Translate implements [dbstore.Backend].
func (b *backend) Translate(doing string, err error) error { return b.translate(doing, err) }

// Close implements [dbstore.Backend].
func (b *backend) Close(context.Context) error {
	if b.link == nil {
		return nil
	}
	if err := b.link.client.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
