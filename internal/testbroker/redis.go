//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// redis is a Redis server.
type redis struct{ server string }

func (r *redis) Ports() int { return 1 }

func (r *redis) Provide(context.Context) (err error) {
	r.server, err = testprocess.Program(string(KindRedis), "redis-server", "redis-server", "valkey-server")
	return err
}

func (r *redis) Prepare(_ context.Context, s *testprocess.Site) error {
	return s.Write("redis.conf",
		"bind "+testprocess.Loopback,
		"port "+strconv.Itoa(s.Ports[0]),
		`dir "`+s.Dir+`"`,
		"appendonly yes",
		"appendfsync everysec", // the file outlives the process, if not the machine
		`save ""`,
	)
}

func (r *redis) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{r.server, s.Path("redis.conf")}}}
}

// Ready waits until the data is loaded. One that asks for a password answers too.
func (r *redis) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "PING\r\n")
	if err != nil {
		return err
	}
	if line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("redis says %q", line)
	}
	return nil
}
