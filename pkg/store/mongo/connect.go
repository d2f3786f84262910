package mongo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// links make the clients of a database, and others in their place when what they were made from is renewed.
type links struct {
	log      logr.Logger
	causes   *dbstore.Causes
	timeout  time.Duration
	existing bool // few calls are expected

	source   *storeuri.Source[origin]
	life     *dbstore.Life // of what replaces clients
	now      atomic.Pointer[clients]
	renewing atomic.Bool
}

// access is the way to one store in a database.
type access struct {
	*links

	cluster    string
	database   string
	standalone bool
	identity   string // of the store; empty: unknown
}

// clients are those of a store. Heartbeats and all else of sessions go over a client of their own, unless few calls are
// expected. So a batch of claims which holds every connection cannot delay them.
type clients struct {
	client, heartbeats *mongo.Client
	common, own        *renewal // the connections of each
	from               origin
	direct             bool // the URI names one server, and no other is to be looked for
}

// clients are those of now.
func (l *links) clients() *clients { return l.now.Load() }

// collection is where documents of a kind are, by the client they go over.
func (a *access) collection(kind driver.Kind) *mongo.Collection {
	client, _ := a.clients().way(kind)
	return client.Database(a.database).Collection(collectionName(a.cluster, kind))
}

// way is the client that documents of a kind go over, and its connections.
func (c *clients) way(kind driver.Kind) (*mongo.Client, *renewal) {
	if kind == driver.KindSession {
		return c.heartbeats, c.own
	}
	return c.client, c.common
}

// collectionName is CLUSTER.KIND in the plural.
func collectionName(cluster string, kind driver.Kind) string {
	return cluster + "." + kind.Info().Plural
}

// schemaName is the collection that holds the version of the layout.
func (a *access) schemaName() string { return a.cluster + ".schema" }

// Connections of each client, to the primary. Batches of claims are at most batchesAtOnce at a time; the rest is for
// single changes, reads and the watch. With fewer than these, a thousand keys are handed over more slowly.
const (
	poolSize          = 8
	heartbeatPoolSize = 2
	fewPoolSize       = 2 // where there is one client, for few calls
)

// Connections are made in the background, so their limit is not the operations'. A TLS handshake may take longer than a
// sixth of a short lease.
const (
	minConnectTimeout = 2 * time.Second
	minHeartbeat      = 500 * time.Millisecond // the driver's own lower bound
	maxHeartbeat      = 2 * time.Second        // the driver may take a server it has lost again only with its next one
)

// connect makes the first clients. They reach the database when it is set up.
func (l *links) connect(ctx context.Context) error {
	made, err := l.make(ctx, l.source.Get())
	if err == nil {
		l.now.Store(made)
	}
	return err
}

// make makes both clients, or one for both where few calls are expected. For mongodb+srv the driver asks the DNS
// meanwhile, which takes no context: it is left behind when ctx ends.
func (l *links) make(ctx context.Context, from origin) (*clients, error) {
	type result struct {
		made *clients
		err  error
	}
	done := make(chan result, 1)
	go func() {
		made, err := l.dial(ctx, from)
		done <- result{made, err}
	}()
	select {
	case r := <-done:
		return r.made, r.err
	case <-ctx.Done():
		go func() { _ = (<-done).made.disconnect(context.WithoutCancel(ctx)) }()
		return nil, fmt.Errorf("look up the URI's hosts: %w", context.Cause(ctx))
	}
}

func (l *links) dial(ctx context.Context, from origin) (made *clients, err error) {
	pool := uint64(poolSize)
	if l.existing {
		pool = fewPoolSize
	}
	made = &clients{from: from, common: newRenewal(l.timeout, l.renew)}
	o := l.clientOptions(from.uri, pool, made.common)
	made.direct = o.Direct != nil && *o.Direct
	if made.client, err = mongo.Connect(o); err != nil {
		return nil, refused(err)
	}
	if l.existing {
		made.heartbeats, made.own = made.client, made.common
		return made, nil
	}
	made.own = newRenewal(l.timeout, l.renew)
	if made.heartbeats, err = mongo.Connect(l.clientOptions(from.uri, heartbeatPoolSize, made.own)); err != nil {
		_ = made.client.Disconnect(ctx)
		return nil, refused(err)
	}
	return made, nil
}

// refused says why no client could be made. A DNS that fails may answer later.
func refused(err error) error {
	if _, dns := errors.AsType[*net.DNSError](err); dns {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
}

// disconnect ends the clients. Nil: there are none.
func (c *clients) disconnect(ctx context.Context) error {
	if c == nil {
		return nil
	}
	err := c.client.Disconnect(ctx)
	if c.heartbeats != c.client {
		err = errors.Join(err, c.heartbeats.Disconnect(ctx))
	}
	return err
}

// clientOptions are the URI's, with what the protocol needs on top.
func (l *links) clientOptions(uri string, pool uint64, conns *renewal) *options.ClientOptions {
	journal := true
	o := options.Client().ApplyURI(uri)
	if o.MaxPoolSize == nil || *o.MaxPoolSize < pool && *o.MaxPoolSize != 0 {
		o.SetMaxPoolSize(pool)
	}
	if o.AppName == nil {
		o.SetAppName("shardctl")
	}
	return o.
		SetDialer(conns).SetMonitor(conns.monitor()).SetPoolMonitor(conns.poolMonitor()).
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetRetryWrites(true).SetRetryReads(true).
		SetServerSelectionTimeout(l.timeout).
		SetConnectTimeout(max(l.timeout, minConnectTimeout)).
		SetHeartbeatInterval(min(max(l.timeout/2, minHeartbeat), maxHeartbeat)).
		SetMinPoolSize(pool / 4) // a hand-over must not wait for a connection to be made
}
