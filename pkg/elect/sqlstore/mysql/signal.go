package mysql

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/sqlstore"
)

// Signal implements [sqlstore.Server]: the server sends nothing by itself, so the log is looked into all the time.
func (s *server) Signal(context.Context, string) (sqlstore.Signal, error) {
	return ticks{time.NewTicker(s.poll)}, nil
}

type ticks struct{ *time.Ticker }

// Wait implements [sqlstore.Signal].
func (t ticks) Wait(ctx context.Context) error {
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [sqlstore.Signal].
func (t ticks) Close() { t.Stop() }
