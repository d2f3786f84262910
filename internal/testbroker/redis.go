//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// redis is a Redis server.
type redis struct{ server string }

func (r *redis) ports() int { return 1 }

func (r *redis) provide(context.Context) (err error) {
	r.server, err = program(KindRedis, "redis-server", "redis-server", "valkey-server")
	return err
}

func (r *redis) prepare(_ context.Context, s *site) error {
	return s.write("redis.conf",
		"bind "+loopback,
		"port "+strconv.Itoa(s.ports[0]),
		`dir "`+s.dir+`"`,
		"appendonly yes",
		"appendfsync everysec", // the file outlives the process, if not the machine
		`save ""`,
	)
}

func (r *redis) commands(s *site) []command {
	return []command{{args: []string{r.server, s.path("redis.conf")}}}
}

// ready waits until the data is loaded. One that asks for a password answers too.
func (r *redis) ready(ctx context.Context, s *site) error {
	line, err := askLine(ctx, s.addr(0), "PING\r\n")
	if err != nil {
		return err
	}
	if line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("redis says %q", line)
	}
	return nil
}
