package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
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

// backend keeps documents in one etcd, under one cluster's name. It implements [engine.Backend].
type backend struct {
	parts
	timeout  time.Duration
	tidies   bool // it takes away entries of indexes that edits by other tools left
	problems []store.Problem
}

// Open connects to the first member that answers, and writes the version of the layout if it is not there. Any number
// of processes may do so at once. It waits no longer than the time-out, or the context.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema] (set up by another version), or [store.ErrUnavailable] (not
// reached, no leader: try again). ErrInvalid is about the URI, TLS, the log-in, permissions that the user lacks, or an
// etcd that is too old. They never hold the password.
func Open(ctx context.Context, o Options) (store.Store, error) {
	s, err := o.read()
	if err != nil {
		return nil, fmt.Errorf("open etcd store: %w", err)
	}
	p := parts{keys: newKeys(s.Prefix, s.Cluster), log: s.Logger}
	p.docs = &documents{keys: p.keys, known: newKnown()}
	p.errs = &translator{root: p.keys.root, user: s.uri.User, secrets: secrets.Of(s.URI)}
	b := &backend{parts: p, timeout: s.Timeout, tidies: !s.Existing} // who only looks may not write
	opened := engine.New(ctx, b, s.Logger)
	err = opened.Do(ctx, "open etcd store "+secrets.Redact(s.URI), func(ctx context.Context) error {
		if b.link, err = connect(ctx, s, p.errs); err != nil {
			return err
		}
		b.floors = &floors{link: b.link, key: p.keys.floor()}
		if err = b.setUp(ctx, s.Existing); err == nil && !s.Existing { // a guard is in a hurry
			b.problems, err = b.findProblems(ctx)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, opened.Close(ctx))
	}
	return opened, nil
}

// Traits implements [engine.Backend].
func (b *backend) Traits() engine.Traits {
	return engine.Traits{
		Timeout: b.timeout, MaxChanges: changesPerRequest, MaxBytes: bytesPerRequest, AtOnce: requestsAtOnce,
		SharedTail: true,
	}
}

// Get implements [engine.Backend]. It is linearizable: the member asks the leader how far it must be.
func (b *backend) Get(ctx context.Context, kind store.Kind, ids []string) (engine.Page, error) {
	v := &view{parts: b.parts}
	docs, err := v.byID(ctx, kind, ids)
	return v.found(docs), err
}

// RaiseFloor implements what [store.RaiseFloor] asks for.
func (b *backend) RaiseFloor(ctx context.Context, least int64) error {
	return b.floors.raise(ctx, least, false)
}

// Problems says what an operator should know about this etcd: that its history is not compacted, that it is nearly
// full, alarms, that it refuses watches. It was found out by Open.
func (b *backend) Problems() []store.Problem { return b.problems }

// Translate implements [engine.Backend].
func (b *backend) Translate(doing string, err error) error { return b.errs.translate(doing, err) }

// Close implements [engine.Backend].
func (b *backend) Close(context.Context) error {
	if b.link == nil {
		return nil
	}
	if err := b.link.client.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
