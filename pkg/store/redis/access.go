package redis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
)

// access is the way to the database.
type access struct {
	*exchange

	finder  *finder
	channel string
	secrets []string // of the URI, kept out of errors

	// Sessions have a connection of their own: claims in bulk cannot delay heartbeats.
	sessions, others *lane
}

// laneOf is the connection for documents of a kind.
func (a *access) laneOf(kind store.Kind) *lane {
	if kind == store.KindSession {
		return a.sessions
	}
	return a.others
}

// field is a field of a hash; empty where there is none.
func (a *access) field(ctx context.Context, key, name string) (text string, err error) {
	err = a.others.use(ctx, func(c *redis.Client) error {
		text, err = c.HGet(ctx, key, name).Result()
		if errors.Is(err, redis.Nil) {
			text, err = "", nil
		}
		return err
	})
	return text, err
}
