//go:build unix

package testservers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/testservers"
)

func TestSentinelsFailOver(t *testing.T) {
	set := testservers.StartRedisSet(t, 3)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testservers.RedisMaster, SentinelAddrs: set.SentinelAddrs(),
	})
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "written on two replicas", func(ctx context.Context) bool {
		replicas, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "k", "before", 0)
			p.Do(ctx, "WAIT", 2, 1000)
			return nil
		})
		return err == nil && replicas[1].(*redis.Cmd).Val() == int64(2)
	})
	old := set.Master(t.Context())

	set.Links[old].Block()
	eventually(t, "another master", func(ctx context.Context) bool {
		return set.Master(ctx) != old && c.Set(ctx, "k", "after", 0).Err() == nil
	})
	// Who is on the side of the old one still writes there.
	beside := redis.NewClient(&redis.Options{Addr: set.Nodes[old].Addr})
	t.Cleanup(func() { _ = beside.Close() })
	if got, err := beside.Get(t.Context(), "k").Result(); err != nil || got != "before" {
		t.Errorf("the partitioned master has %q, %v", got, err)
	}
	set.Links[old].Unblock()
	eventually(t, "the old master as a replica", func(ctx context.Context) bool {
		info, err := beside.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:slave") && beside.Get(ctx, "k").Val() == "after"
	})

	second := set.Master(t.Context())
	set.Nodes[second].Kill()
	eventually(t, "a third master", func(ctx context.Context) bool {
		return set.Master(ctx) != second && c.Set(ctx, "k", "last", 0).Err() == nil
	})
}

// eventually waits until something holds. Each try has five seconds.
func eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		ok := holds(ctx)
		cancel()
		if ok {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}
