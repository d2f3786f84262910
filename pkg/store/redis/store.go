// Package redis keeps the documents of package elect in Redis or Valkey: a [driver.Store] for production.
//
// # What it needs
//
// Redis 6.2 or newer, or Valkey: one server, a master with replicas under Sentinel, or a shard of a cluster. Every key
// has one hash tag, so a cluster of shardctl lives on one shard. How many servers hold the data is configured, and kept
// in the store: majorities are counted by it. docs/stores/redis.md says how to set a server up, and the least rights.
//
// # What it keeps
//
// For a cluster named default, in one database of the server:
//
//	shardctl:{default}:state       hash: counters, the largest revision, the version of the layout
//	shardctl:{default}:gate        hash: under which identity keys may be claimed, lease, nodes, time waited for
//	shardctl:{default}:locks       hash: the documents by id, likewise sessions, members, values, groups, …
//	shardctl:{default}:locks:ids   sorted sets: the indexes, named after what they are in order of
//	shardctl:{default}:changes     channel: notifications
//
// A document is its fields, parted by NUL bytes, then its body. Scripts compare and count in it; Lua's JSON would round
// its numbers. What somebody wrote with redis-cli so that it is no document is left out, and a creation may take its
// place.
//
// # How it keeps the promises
//
// Redis acknowledges a write before it is durable, and fails over to replicas that may miss it. A client may also talk
// to a master that was deposed and does not know. So the adapter does not believe a reply because it came.
//
// The identity of a master is its run_id, its master_replid, and how often replicas have synchronized with it. Its
// lineage is the identity without that number. Every change and every Read is one pipeline on one connection: a script
// that runs under one identity only and always writes, WAIT for half of the nodes, and a second look at the identity.
// Where more than N servers have held the data, WAIT is for a majority of any N of them.
// A reply is good when a majority has the write and the identity is the same at its beginning and its end. All else is
// unknown. It is repeated under the same identity, or, when that changes, refused by every script that was sent before.
//
// Reply.Lineage and Outcome.Lineage carry the lineage. Where it changes, acknowledged writes may be lost, and package
// elect audits what it holds before it goes on.
//
// Changes with a Claim pass the gate. It is a part of the data, and names the identity under which work may be started.
// Once good replies have come under one unchanged identity for the duration of a lease, the next write opens it for
// that one. By then nothing runs any more that held a key in another lineage. They need not have come to one client:
// the gate keeps for how long they have, and who begins later counts on from there. docs/protocol.md has the argument.
//
// # Connections
//
// A replica uses three: one for sessions, so that claims in bulk cannot delay heartbeats, one for all else, and one for
// notifications. The guard opens a fourth when it marks a session.
package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// backend keeps documents in one Redis database, under one cluster's name. It implements [dbstore.Backend].
type backend struct {
	*access
	problems dbstore.Problems
	silent   atomic.Bool  // the channel may not be used: polling only
	looked   atomic.Int64 // entries of indexes that the last list has looked at
}

// Open connects to the master, checks how it is set up, and marks an empty database, all within ctx and the timeout.
// Config.Database is the number of Redis's database; left out: the URI's, else 0.
//
// Errors wrap [driver.ErrInvalid], [driver.ErrSchema] (set up by another version), or [driver.ErrUnavailable] (not
// reached: try again). They never hold a password.
func Open(ctx context.Context, c driver.Config) (_ driver.Store, err error) {
	what := "open Redis store " + Redact(c.URI)
	if c, err = dbstore.Complete(c); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	b, err := newBackend(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s := dbstore.New(ctx, b, b.log)
	ready := &setup{access: b.access, problems: &b.problems}
	ctx, done := dbstore.Bound(ctx, b.finder.limit)
	defer done()
	if err := s.Do(ctx, what, func(ctx context.Context) error { return ready.run(ctx, c.Existing) }); err != nil {
		_ = s.Close(ctx) // nothing of it is used
		return nil, err
	}
	b.silent.Store(ready.silent)
	if !c.Existing {
		s.KeepLooking() //nolint:contextcheck // it lives as long as the store
	}
	return s, nil
}

// newBackend is on a database that was not reached yet.
func newBackend(ctx context.Context, c driver.Config) (*backend, error) {
	source, err := newSource(c)
	if err != nil {
		return nil, err
	}
	t := source.Get()
	keys := newKeyspace(c.Cluster)
	f := &finder{target: t, source: source, proof: keys.state(), timeout: c.Timeout, limit: dbstore.Limit(c.Timeout)}
	connections := dbstore.NewMaker(ctx, c.Timeout, f.limit, f.connect, func(c *redis.Client) { _ = c.Close() })
	channel := keys.channel(t.db)
	a := &access{
		exchange: &exchange{
			keys: keys, nodes: t.nodes, named: t.master != "", timeout: c.Timeout, look: look(keys),
			log: c.Logger, causes: causes(source.Hidden),
		},
		finder: f, channel: channel, connections: connections, others: newLane(f, connections, false),
	}
	a.subscriptions = dbstore.NewMaker(
		ctx, c.Timeout, f.limit, func(ctx context.Context, failed int) (*subscription, error) {
			return f.subscribe(ctx, channel, failed)
		}, (*subscription).close,
	)
	a.sessions = a.others
	if !c.Existing {
		a.sessions = newLane(f, connections, true)
	}
	return &backend{access: a}, nil
}

// Traits implements [dbstore.Backend].
func (b *backend) Traits() dbstore.Traits {
	return dbstore.Traits{Timeout: b.timeout, MaxChanges: driver.MaxBatch, SharedTail: true}
}

// Problems says what an operator should know about this database.
func (b *backend) Problems() []driver.Problem { return b.problems.All() }

// Look implements [dbstore.Looker].
func (b *backend) Look(ctx context.Context) error {
	d, err := b.describe(ctx)
	if err != nil {
		return err
	}
	g, err := b.readGate(ctx)
	if err == nil {
		b.problems.Looked(append(d.problems(), b.gateProblems(g)...))
	}
	return err
}

// Translate implements [dbstore.Backend].
func (b *backend) Translate(doing string, err error) error { return b.causes.Translate(doing, err) }

// Close implements [dbstore.Backend].
func (b *backend) Close(ctx context.Context) error {
	err := b.others.close(ctx)
	if b.sessions != b.others {
		err = errors.Join(err, b.sessions.close(ctx))
	}
	b.connections.Close()
	b.subscriptions.Close()
	return err
}
