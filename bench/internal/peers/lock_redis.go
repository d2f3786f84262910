//go:build linux

package peers

import (
	"context"
	"math"
	"time"

	"github.com/bsm/redislock"
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
