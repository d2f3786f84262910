package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store"
)

const (
	openTry    = 5 * time.Second  // the first try to open the store
	openTries  = 20 * time.Second // and others at most: what is far away, or busy, may take longer
	openPause  = 200 * time.Millisecond
	openPauses = 5 * time.Second // at most between two tries
)

// WaitForStore opens the store, trying again for as long as limit says while it is unreachable. With limit 0 it tries
// once, below 0 without end. failed is called with each failure and when the next try is.
func WaitForStore(
	ctx context.Context, limit time.Duration, open func(context.Context) (store.Store, error),
	failed func(err error, next time.Duration),
) (store.Store, error) {
	began := time.Now()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for pause, try := openPause, openTry; ; pause, try = min(2*pause, openPauses), min(2*try, openTries) {
		db, err := openOnce(ctx, try, open)
		switch {
		case err == nil:
			return db, nil
		case limit == 0 || !errors.Is(err, store.ErrUnavailable):
			return nil, err
		}
		if ctx.Err() == nil {
			failed(err, pause)
		}
		if clock.Sleep(ctx, pause) != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				within := time.Since(began).Round(100 * time.Millisecond) // the caller's deadline may be earlier
				return nil, fmt.Errorf("the store was not reached within %v: %w", within, err)
			}
			return nil, context.Cause(ctx)
		}
	}
}

func openOnce(
	ctx context.Context, try time.Duration, open func(context.Context) (store.Store, error),
) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return open(ctx)
}
