//go:build linux

package peers

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLocks are mutexes of redsync on one server, each extended every third of its time: that is left to its users.
type redsyncLocks struct {
	rs     *redsync.Redsync
	expiry time.Duration
}

func openRedsync(_ context.Context, t target) (locks, error) {
	pool := goredis.NewPool(redis.NewClient(&redis.Options{Addr: t.uri}))
	return &redsyncLocks{redsync.New(pool), t.lease}, nil
}

// acquire waits as long as it takes, with the pauses of the defaults: 50 to 250 ms.
func (l *redsyncLocks) acquire(ctx context.Context, key string) (held, error) {
	m := l.rs.NewMutex(key, redsync.WithExpiry(l.expiry), redsync.WithTries(math.MaxInt32))
	if err := m.LockContext(ctx); err != nil {
		return held{}, err
	}
	var until atomic.Pointer[time.Time]
	keep := func() {
		at := m.Until()
		until.Store(&at)
	}
	keep()
	renewal := renewed(ctx, l.expiry/3, func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if err == nil && !ok {
			err = errors.New("not extended")
		}
		if err == nil {
			keep()
		}
		return err
	})
	return held{
		lost: func() bool { return renewal.failed() || time.Now().After(*until.Load()) },
		release: func(ctx context.Context) error {
			renewal.stop()
			_, err := m.UnlockContext(ctx)
			return err
		},
	}, nil
}
