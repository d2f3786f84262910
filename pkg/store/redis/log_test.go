package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A number of changes that somebody edited so that it cannot be raised fails no change, and is mended.
func TestBrokenLog(t *testing.T) {
	for _, number := range []string{"none", "9223372036854775807", "-1"} {
		t.Run(number, func(t *testing.T) {
			uri := testservers.Shared(t, testservers.KindRedis).Database()
			o, err := goredis.ParseURL(uri)
			if err != nil {
				t.Fatal(err)
			}
			c := goredis.NewClient(o)
			defer func() { _ = c.Close() }()
			storetest.BrokenLog{Config: driver.Config{URI: uri}, Break: func() {
				if err := c.HSet(t.Context(), "shardctl:{default}:state", "changes", number).Err(); err != nil {
					t.Fatal(err)
				}
			}}.Run(t)
		})
	}
}
