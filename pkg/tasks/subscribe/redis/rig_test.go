package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
)

// rig is a stream of the shared server, and a client of it.
type rig struct {
	*sourcetest.Task

	client *goredis.Client
	source redis.Source
}

// newRig makes a stream with so many entries, each with the body "n".
func newRig(t *testing.T, entries int) *rig {
	t.Helper()
	b := testbroker.Shared(t, testbroker.KindRedis)
	return rigAt(t, b.Addr, entries)
}

func rigAt(t *testing.T, addr string, entries int) *rig {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	r := &rig{
		Task: sourcetest.Named(t, "shop", "orders"), client: client,
		source: redis.Source{URL: "redis://" + addr, Stream: testbroker.Name(), Block: time.Second},
	}
	for n := range entries {
		r.add(fmt.Sprint(n))
	}
	return r
}

func (r *rig) add(body string) string {
	r.T.Helper()
	id, err := r.client.XAdd(sourcetest.Context(r.T), &goredis.XAddArgs{
		Stream: r.source.Stream, Values: []any{"body", body},
	}).Result()
	if err != nil {
		r.T.Fatal(err)
	}
	return id
}

func (r *rig) do(args ...any) any {
	r.T.Helper()
	reply, err := r.client.Do(sourcetest.Context(r.T), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		r.T.Fatal(args, err)
	}
	return reply
}

func (r *rig) open(token int64) *sourcetest.Client { r.T.Helper(); return r.Open(r.source, token) }

func (r *rig) refused(token int64) error { r.T.Helper(); return r.Refused(r.source, token) }
