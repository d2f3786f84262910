package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/shardctl/shardctl/pkg/elect/internal/storeuri"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

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
	maxHeartbeat      = 10 * time.Second       // the driver's default
)

// connect makes both clients, or one for both where few calls are expected. It reaches the database first when it is
// set up.
func (a *access) connect(ctx context.Context, opts Options) error {
	parsed, err := a.parse(ctx, opts.URI)
	if err != nil {
		return err
	}
	switch {
	case opts.Database != "":
		a.database = opts.Database
	case parsed.Database != "":
		a.database = parsed.Database
	default:
		a.database = DefaultDatabase
	}
	pool := uint64(poolSize)
	if opts.Existing {
		pool = fewPoolSize
	}
	if a.client, err = mongo.Connect(a.clientOptions(opts.URI, parsed, pool)); err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if opts.Existing {
		a.heartbeats = a.client
		return nil
	}
	if a.heartbeats, err = mongo.Connect(a.clientOptions(opts.URI, parsed, heartbeatPoolSize)); err != nil {
		_ = a.client.Disconnect(ctx)
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return nil
}

// parse reads the URI. For mongodb+srv it asks the DNS, which takes no context: it is left behind when ctx ends.
func (a *access) parse(ctx context.Context, uri string) (*connstring.ConnString, error) {
	type result struct {
		parsed *connstring.ConnString
		err    error
	}
	done := make(chan result, 1)
	go func() {
		parsed, err := connstring.ParseAndValidate(uri)
		done <- result{parsed, err}
	}()
	select {
	case r := <-done:
		var dns *net.DNSError
		switch {
		case errors.As(r.err, &dns):
			return nil, fmt.Errorf("%w: %s", store.ErrUnavailable, storeuri.Scrub(r.err.Error(), a.secrets))
		case r.err != nil: // as text only: it may quote the URI
			return nil, fmt.Errorf("%w: %s", store.ErrInvalid, storeuri.Scrub(r.err.Error(), a.secrets))
		}
		return r.parsed, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("look up the URI's hosts: %w", context.Cause(ctx))
	}
}

// clientOptions are the URI's, with what the protocol needs on top.
func (a *access) clientOptions(uri string, parsed *connstring.ConnString, pool uint64) *options.ClientOptions {
	journal := true
	o := options.Client().ApplyURI(uri).
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetRetryWrites(true).SetRetryReads(true).
		SetServerSelectionTimeout(a.timeout).
		SetConnectTimeout(max(a.timeout, minConnectTimeout)).
		SetHeartbeatInterval(min(max(a.timeout/2, minHeartbeat), maxHeartbeat)).
		SetMinPoolSize(pool / 4) // a hand-over must not wait for a connection to be made
	if !parsed.MaxPoolSizeSet || parsed.MaxPoolSize < pool && parsed.MaxPoolSize != 0 {
		o.SetMaxPoolSize(pool)
	}
	if parsed.AppName == "" {
		o.SetAppName("shardctl")
	}
	return o
}
