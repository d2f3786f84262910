// Package mongo keeps the documents of package elect in MongoDB: a [driver.Store] for production.
//
// # What it needs
//
// MongoDB 5.0 or newer; a replica set, so that a majority can hold a write and replicas can be woken by a change
// stream. On a standalone server it works by polling and says so (see [Store.Problems]); an arbiter in the set gets a
// warning. On a sharded cluster the collection of locks must be unsharded or sharded by _id alone. Only _id is unique,
// and two shards could each hold a lock of one key. The user needs the role readWrite on the database, or less:
// docs/stores/mongodb.md has the least. Open asks the server what the user may do, and refuses with all that is
// missing. It makes only those collections and indexes that are not there.
//
// # What it keeps
//
// One collection for each kind of document, named after the cluster: default.locks, default.sessions and so on, and
// default.schema with the version of this layout. Documents are meant to be read by people:
//
//	{_id: "topics/topic-001", rev: 1790000000000, writer: {session: "…", seq: 7}, group: "topics", session: "…",
//	 suspended: false, body: "{…}"}
//
// A document that somebody edited is read as far as it goes, or left out and logged when it has no usable _id or rev.
// It never fails a read of the others.
//
// # How it keeps the promises
//
// Every change is one insertOne, replaceOne, updateOne or deleteOne with {_id, rev} as its condition, acknowledged by a
// majority and journalled. Nothing is upserted except a group's counter. Lists are majority reads from the primary,
// Read is linearizable. Up to 200 changes go out as one unordered batch. MongoDB reports how many of them matched, not
// which. So when not all did they are read back, linearizably, and distinguished by their writer IDs. A refusal alone
// may come from a primary that was deposed and does not know.
//
// An answer that was lost is first asked for again by the driver (retryable writes), then by a linearizable read of the
// document. Its writer ID says whether the write happened, its revision whether it still can. What remains is Unknown.
//
// Sessions, and with them the heartbeats, have a client with connections of its own: claims in bulk cannot starve them.
//
// # Time
//
// Reply.Now and Wall are the primary's clock in milliseconds. It is sampled when the store is opened and, at no cost,
// by each read of sessions. In between it goes on with the local monotonic clock. So it is off by half a round trip,
// and by what two clocks drift apart between samples. After a failover it follows the new primary's clock, which may be
// behind.
package mongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// backend keeps documents in one database, under one cluster's name. It implements [dbstore.Backend].
type backend struct {
	*setup

	dropped chan struct{} // holds one while collections or indexes may be missing, see remake
}

// Open connects to the database and checks that the user may do what will be needed. It makes what is missing:
// collections, indexes, the version of the layout. Any number of processes may do so at once. It waits for a primary no
// longer than the operation time-out, or the context.
//
// Errors wrap [driver.ErrInvalid], [driver.ErrSchema] (set up by another version), or [driver.ErrUnavailable] (not
// reached: try again). ErrInvalid is about the URI, the credentials, privileges that the user lacks, a name, or the way
// locks are sharded. They never hold the password.
func Open(ctx context.Context, opts Options) (driver.Store, error) {
	opts, err := registered{}.Parse(opts)
	if err != nil {
		return nil, fmt.Errorf("open MongoDB store: %w", err)
	}
	b, err := newBackend(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("open MongoDB store %s: %w", Redact(opts.URI), err)
	}
	s := dbstore.New(ctx, b, opts.Logger)
	err = s.Do(ctx, "open MongoDB store "+Redact(opts.URI), func(ctx context.Context) error {
		if err := b.connect(ctx); err != nil {
			return err
		}
		return b.setUp(ctx, opts.Existing)
	})
	if err != nil {
		_ = s.Close(context.WithoutCancel(ctx)) // why it cannot be opened is what counts
		return nil, err
	}
	if !opts.Existing {
		s.KeepLooking() //nolint:contextcheck // it lives as long as the store
	}
	return s, nil
}

// newBackend is on a database that was not reached yet.
func newBackend(ctx context.Context, opts Options) (*backend, error) {
	source, err := storeuri.NewSource(opts, secretParams, originOf)
	if err != nil {
		return nil, err
	}
	return &backend{
		setup: &setup{reader: &reader{access: &access{
			links: &links{
				log: opts.Logger, causes: causes(source.Hidden), timeout: opts.Timeout, existing: opts.Existing,
				source: source, life: dbstore.NewLife(ctx, 0),
			},
			cluster: opts.Cluster, database: opts.Database,
		}}},
		dropped: make(chan struct{}, 1),
	}, nil
}

// Traits implements [dbstore.Backend].
func (b *backend) Traits() dbstore.Traits { return dbstore.Traits{Timeout: b.timeout} }

// Problems says what an operator should know about this database: no replica set, arbiters.
func (b *backend) Problems() []driver.Problem { return b.problems.All() }

// Waits implements [dbstore.Waiter]. Any user may see his own operations, and with them whether the server is locked.
func (b *backend) Waits(ctx context.Context) (string, error) {
	var reply struct {
		Locked bool `bson:"fsyncLock"`
	}
	err := b.clients().client.Database("admin").RunCommand(ctx, bson.D{
		{Key: "currentOp", Value: 1}, {Key: "$ownOps", Value: true},
	}).Decode(&reply)
	if err != nil || !reply.Locked {
		return "", err
	}
	return "the server is locked by db.fsyncLock, as for a backup: db.fsyncUnlock ends that", nil
}

// Translate implements [dbstore.Backend].
func (b *backend) Translate(doing string, err error) error { return b.causes.Translate(doing, err) }

// Close implements [dbstore.Backend].
func (b *backend) Close(ctx context.Context) error {
	b.life.End()
	return b.clients().disconnect(ctx)
}
