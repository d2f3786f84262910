//go:build unix

package testservers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// KindRedis is a Redis, or Valkey, that has each write on the disk before it confirms it.
const KindRedis Kind = "redis"

// redisDatabases is how many databases a server has: as many as a package's tests ask for.
const redisDatabases = 10_000

func init() {
	register(KindRedis, definition{
		software: func() testprocess.Software { return NewRedis() },
		database: func(_ context.Context, s *testprocess.Server) (string, error) {
			return "redis://" + s.Addr() + "/" + strconv.FormatInt(s.Software().(*Redis).last.Add(1), 10), nil
		},
	})
}

// Redis is the programs of a Redis or Valkey.
type Redis struct {
	server string
	config []string
	last   atomic.Int64 // number of the database last made
}

// NewRedis makes one whose configuration has these further lines.
func NewRedis(config ...string) *Redis { return &Redis{config: config} }

// Ports is one.
func (r *Redis) Ports() int { return 1 }

// Provide finds the server.
func (r *Redis) Provide(context.Context) (err error) {
	r.server, err = testprocess.Program(string(KindRedis), "redis-server", "redis-server", "valkey-server")
	return err
}

// Prepare leaves a configuration alone that is there: a sentinel has the server write there whose replica it is.
func (r *Redis) Prepare(_ context.Context, s *testprocess.Site) error {
	if _, err := os.Stat(s.Path("redis.conf")); err == nil {
		return nil
	}
	return s.Write("redis.conf", slices.Concat([]string{
		"bind " + testprocess.Loopback,
		"port " + strconv.Itoa(s.Ports[0]),
		`dir "` + s.Dir + `"`,
		"databases " + strconv.Itoa(redisDatabases),
		"appendonly yes",
		"appendfsync always",
		`save ""`,
	}, r.config)...)
}

// Commands is the server alone.
func (r *Redis) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{r.server, s.Path("redis.conf")}}}
}

// Ready waits until the data is loaded. One that asks for a password answers too.
func (r *Redis) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "PING\r\n")
	if err != nil {
		return err
	}
	if line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("redis says %q", line)
	}
	return nil
}
