//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

const (
	noticeLimit = 20 * time.Second
	// restLeast is enough for the second notification of a write to arrive before the next write.
	restLeast = 50 * time.Millisecond
	// restSpread is the longest interval at which a store here is polled: writes come at any moment within it.
	restSpread = 100 * time.Millisecond
)

// measureNotices writes at any moment, and waits for each notification. The median is returned.
func measureNotices(ctx context.Context, b *lab.Lab, w *writer, reader store.Store) (time.Duration, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	notices, err := reader.Watch(watching, store.Interest{Kinds: []store.Kind{store.KindOverride}})
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	var took []time.Duration
	n := b.Full(100, 30)
	for range n {
		//nolint:gosec // a moment, not a secret
		if err := lab.Pause(ctx, restLeast+rand.N(restSpread)); err != nil {
			return 0, err
		}
		if err := drain(notices); err != nil {
			return 0, err
		}
		if _, err := w.write(ctx); err != nil {
			return 0, err
		}
		noticed, err := awaitNotice(ctx, notices, w.rev)
		if err != nil {
			return 0, err
		}
		if noticed {
			took = append(took, time.Since(w.sent))
		}
	}
	if len(took) < n/2 {
		return 0, fmt.Errorf("%d of %d writes were noticed", len(took), n)
	}
	return history.Percentile(took, 50), nil
}

var errWatchEnded = errors.New("the watch ended")

// drain takes what is waiting: more about the writes before.
func drain(notices <-chan store.Notification) error {
	for {
		select {
		case _, open := <-notices:
			if !open {
				return errWatchEnded
			}
		default:
			return nil
		}
	}
}

// awaitNotice waits until the write of a revision is noticed. It is not where a Resync comes instead, which tells of
// none.
func awaitNotice(ctx context.Context, notices <-chan store.Notification, rev int64) (noticed bool, err error) {
	limit := time.NewTimer(noticeLimit)
	defer limit.Stop()
	for {
		select {
		case n, open := <-notices:
			switch {
			case !open:
				return false, errWatchEnded
			case n.Resync:
				return false, nil
			case n.ID == noted && (n.Doc == nil || n.Doc.Rev >= rev):
				return true, nil
			}
		case <-limit.C:
			return false, fmt.Errorf("no notification within %v", noticeLimit)
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
