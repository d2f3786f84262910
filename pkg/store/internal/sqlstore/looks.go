package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// intactEvery is after how many looks a watch makes sure that its file is still the one that others open.
const intactEvery = 25

// looks is the [Signal] of a [File]: a connection that looks whether another one has written.
type looks struct {
	file    *file
	tick    *time.Ticker
	conn    *sql.Conn
	asks    *sql.Stmt // FileTexts.Changed on conn: prepared, since an idle watch does little else
	version int64     // what it said last
	count   int
}

func (f *file) signal(ctx context.Context, every time.Duration) (Signal, error) {
	l := &looks{file: f}
	if err := f.retry(ctx, func() error { return l.connect(ctx) }); err != nil {
		return nil, err
	}
	l.tick = time.NewTicker(every)
	return l, nil
}

// Wait implements [Signal].
func (l *looks) Wait(ctx context.Context) error {
	for {
		select {
		case <-l.tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		changed, err := l.look(ctx)
		switch {
		case changed:
			return nil
		case err == nil, l.file.core.dialect.Busy(err):
		case errors.Is(l.file.sentinel(err), store.ErrInvalid):
			return err
		default:
			l.disconnect()
		}
	}
}

// Close implements [Signal].
func (l *looks) Close() {
	l.tick.Stop()
	l.disconnect()
}

// look says whether another connection has written since the last look, as far as that is known.
func (l *looks) look(ctx context.Context) (bool, error) {
	if l.count%intactEvery == 0 {
		if err := l.file.dialect.Intact(); err != nil {
			return false, err
		}
	}
	l.count++
	if l.conn == nil {
		err := l.connect(ctx)
		return err == nil, err
	}
	before := l.version
	err := l.ask(ctx)
	return err == nil && l.version != before, err
}

func (l *looks) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.file.db.Conn(ctx)
	if err != nil {
		return err
	}
	l.conn = conn
	l.asks, err = conn.PrepareContext(ctx, l.file.texts.Changed)
	if err == nil {
		err = l.ask(ctx)
	}
	if err != nil {
		l.disconnect()
	}
	return err
}

// ask takes a number that changes when another connection has written. It is brief, so it is not worth the goroutine
// that would watch over a context.
func (l *looks) ask(ctx context.Context) error {
	return l.asks.QueryRowContext(context.WithoutCancel(ctx)).Scan(&l.version)
}

func (l *looks) disconnect() {
	if l.asks != nil {
		_ = l.asks.Close()
		l.asks = nil
	}
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}
