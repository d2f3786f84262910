//go:build linux

package brokers_test

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// redisPublisher appends to streams, and repeats nothing.
type redisPublisher struct{ client *redis.Client }

func connectRedis(ctx context.Context, addr string, topics []string, _ int) (publisher, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	var errs []error
	for _, topic := range topics { // a group makes the stream, which stays when the group goes
		errs = append(errs, client.XGroupCreateMkStream(ctx, topic, "first", "$").Err(),
			client.XGroupDestroy(ctx, topic, "first").Err())
	}
	return redisPublisher{client}, errors.Join(errs...)
}

func (p redisPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	values := []any{"body", body}
	if to.key != "" {
		values = append(values, "key", to.key)
	}
	return p.client.XAdd(ctx, &redis.XAddArgs{Stream: to.topic, Values: values}).Err()
}

func (p redisPublisher) Close() { _ = p.client.Close() }
