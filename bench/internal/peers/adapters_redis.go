//go:build linux

package peers

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redisRetry is the retry strategy of redislock's own example.
const redisRetry = 100 * time.Millisecond

// redisLocks are locks of redislock, each refreshed every third of its time to live: that is left to its users.
type redisLocks struct {
	client *redislock.Client
	ttl    time.Duration
}

func openRedis(_ context.Context, t target) (locks, error) {
	return &redisLocks{redislock.New(redis.NewClient(&redis.Options{Addr: t.uri})), t.lease}, nil
}

func (l *redisLocks) acquire(ctx context.Context, key string) (held, error) {
	waiting, cancel := context.WithTimeout(ctx, math.MaxInt64) // without a deadline it waits for one time to live only
	defer cancel()
	lock, err := l.client.Obtain(waiting, key, l.ttl,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(redisRetry)})
	if err != nil {
		return held{}, err
	}
	renewal := renewed(ctx, l.ttl/3, func(ctx context.Context) error { return lock.Refresh(ctx, l.ttl, nil) })
	return held{lost: renewal.failed, release: func(ctx context.Context) error {
		renewal.stop()
		return lock.Release(ctx)
	}}, nil
}

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
