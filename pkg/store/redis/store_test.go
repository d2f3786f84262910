package redis_test

import (
	"cmp"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/redis"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// suite is a database for the conformance suite.
func suite(t *testing.T, c driver.Config) storetest.Database {
	t.Helper()
	c.Timeout = cmp.Or(c.Timeout, 20*time.Second)
	mine := storetest.Open(t, c)
	return storetest.Database{
		Quiet: true, Neighbour: func(ctx context.Context) (driver.Store, error) {
			other := c
			other.Cluster = "neighbour"
			return store.Open(ctx, other)
		},
		Open: func(ctx context.Context) (driver.Store, error) {
			s, err := redis.Open(ctx, c)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		ShiftSchema: func(ctx context.Context, by int) error { return redis.ShiftSchema(ctx, mine, by) },
		Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
			return redis.Spoil(ctx, mine, kind, id)
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			return redis.Examined(ctx, mine, kind, q)
		},
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return suite(t, driver.Config{URI: testservers.Shared(t, testservers.KindRedis).Database()})
	})
}

// Behind Sentinels each reply waits for one of the two replicas.
func TestStoreOfThree(t *testing.T) {
	set := testservers.StartRedisSet(t, 3)
	db := 0
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		db++
		return suite(t, driver.Config{URI: set.URI(), Database: strconv.Itoa(db)})
	})
}
