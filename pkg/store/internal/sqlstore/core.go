package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// core is a database as everything here knows it: how it wants to be spoken to, and the texts of one cluster.
type core struct {
	dialect Dialect
	texts   Texts
	sql     statements
	log     logr.Logger
	// high is the largest revision of a counter, as the last read showed it that looked.
	high atomic.Int64
}

// database runs statements on a [File] or a [Server].
type database interface {
	// prepare comes before anything else.
	prepare(ctx context.Context) error
	query(ctx context.Context, lane Lane, queries ...Statement) error
	cas(ctx context.Context, changes []store.Change, attempt int) ([]engine.Result, error)
	// confirm returns nil once what the changes found is durable.
	confirm(ctx context.Context, changes []store.Change) error
	// setUp calls f while no one else is within one.
	setUp(ctx context.Context, f func(run Run) error) error
	signal(ctx context.Context, every time.Duration) (Signal, error)
	inspect(ctx context.Context) (store.Inspection, error)
	// now is the clock of a database that has none of its own, else 0.
	now() int64
	close(ctx context.Context) error
}

// retry tries f until it ends otherwise than because another connection is in the way, or until ctx ends. Then it
// returns the reason it last met.
func (c *core) retry(ctx context.Context, f func() error) error {
	var reason error
	for {
		err := f()
		switch {
		case err == nil:
			return nil
		case c.dialect.Busy(err):
			reason = err
		case reason != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", err, reason)
		default:
			return err
		}
		// At random, so that waiting processes do not meet again.
		pause := time.Duration(1+rand.IntN(4)) * time.Millisecond //nolint:gosec // no secret hangs on it
		if sleep.For(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), reason)
		}
	}
}

// Translate implements [engine.Backend]: it makes an error of the driver one of package store, and names the database.
func (c *core) Translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w: %w", c.dialect, doing, c.sentinel(err), err)
}

func (c *core) sentinel(err error) error {
	switch {
	case errors.Is(err, store.ErrSchema):
		return store.ErrSchema
	case errors.Is(err, store.ErrInvalid):
		return store.ErrInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrClosed),
		errors.Is(err, sql.ErrConnDone):
		return store.ErrUnavailable
	}
	return c.dialect.Classify(err)
}

// get is a query for one document, which it puts into d.
func (c *core) get(kind store.Kind, id string, d **store.Doc) Statement {
	return Statement{Text: c.sql.kinds[kind].get, Args: []any{id}, Row: func(row Row) error {
		one, err := scan(kind, row)
		*d = &one
		return err
	}}
}

// docs is a query for documents, which it adds to a page.
func (c *core) docs(kind store.Kind, text string, args []any, into *engine.Page) Statement {
	return Statement{Text: text, Args: args, Row: func(row Row) error {
		d, err := scan(kind, row)
		if err == nil {
			into.Docs = append(into.Docs, d)
		}
		return err
	}}
}
