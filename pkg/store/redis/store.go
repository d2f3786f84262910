package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// DefaultTimeout bounds calls whose context has no deadline, unless the [store.Config] says otherwise.
const DefaultTimeout = 3 * time.Second // about a sixth of the default lease

// backend keeps documents in one Redis database, under one cluster's name. It implements [engine.Backend].
type backend struct {
	*access
	problems []store.Problem
	silent   atomic.Bool  // the channel may not be used: polling only
	looked   atomic.Int64 // entries of indexes that the last list has looked at
}

// Open connects to the master, checks how it is set up, and marks an empty database, all within ctx and the timeout.
// Config.Database is the number of Redis's database; left out: the URI's, else 0.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached: try again). They never hold a password.
func Open(ctx context.Context, c store.Config) (_ store.Store, err error) {
	what := "open Redis store " + Redact(c.URI)
	if c.Cluster, err = engine.Cluster(c.Cluster); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	t, err := parseTarget(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	b, err := newBackend(c, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s := engine.New(ctx, b, b.log)
	ready := &setup{access: b.access}
	if err := s.Do(ctx, what, func(ctx context.Context) error { return ready.run(ctx, c.Existing) }); err != nil {
		_ = s.Close(ctx) // nothing of it is used
		return nil, err
	}
	b.problems = ready.problems
	b.silent.Store(ready.silent)
	return s, nil
}

// newBackend is on a database that was not reached yet.
func newBackend(c store.Config, t target) (*backend, error) {
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
		secrets: append(secrets().Of(c.URI), t.password, t.sentinelPassword),
	}
	a.sessions = a.others
	if !c.Existing {
		a.sessions = newLane(f)
	}
	return &backend{access: a}, nil
}

// Traits implements [engine.Backend].
func (b *backend) Traits() engine.Traits { return engine.Traits{Timeout: b.timeout, SharedTail: true} }

// Problems says what an operator should know about this database. It was found out by Open.
func (b *backend) Problems() []store.Problem { return b.problems }

// Translate implements [engine.Backend].
func (b *backend) Translate(doing string, err error) error { return b.translate(doing, err) }

// Close implements [engine.Backend].
func (b *backend) Close(ctx context.Context) error {
	err := b.others.close(ctx)
	if b.sessions != b.others {
		err = errors.Join(err, b.sessions.close(ctx))
	}
	return err
}
