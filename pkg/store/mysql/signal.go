package mysql

import (
	"context"
	"time"
)

// ticks says at intervals that it is time to look.
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
