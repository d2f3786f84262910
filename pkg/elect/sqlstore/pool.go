package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// pool is the connections to a database, and how it wants to be spoken to.
type pool struct {
	db      *sql.DB
	dialect Dialect
	texts   Texts
}

// newConn opens a connection. It may meet another that is just preparing the database.
func (p *pool) newConn(ctx context.Context) (conn *sql.Conn, err error) {
	err = p.retry(ctx, func() error {
		conn, err = p.db.Conn(ctx)
		return err
	})
	return conn, err
}

// retry tries f until it ends otherwise than because another connection is in the way, or until ctx ends. Then it
// returns the reason it last met.
func (p *pool) retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !p.dialect.Busy(err) {
			return err
		}
		// At random, so that waiting processes do not meet again.
		pause := time.NewTimer(time.Duration(1+rand.IntN(4)) * time.Millisecond) //nolint:gosec // no secret hangs on it
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// translate makes an error of the driver one of package store, and names the database and what was tried.
func (p *pool) translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w: %w", p.dialect, doing, p.sentinel(err), err)
}

func (p *pool) sentinel(err error) error {
	switch {
	case errors.Is(err, store.ErrSchema):
		return store.ErrSchema
	case errors.Is(err, store.ErrInvalid):
		return store.ErrInvalid
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errClosed),
		errors.Is(err, sql.ErrConnDone):
		return store.ErrUnavailable
	}
	return p.dialect.Classify(err)
}
