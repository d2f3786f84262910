//go:build linux

package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redisCalls counts commands that write and that read, those inside scripts included.
func redisCalls(ctx context.Context, addr string) (rates, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }() // only read
	commands, err := client.Command(ctx).Result()
	if err != nil {
		return rates{}, err
	}
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return rates{}, err
	}
	var r rates
	for line := range strings.Lines(text) {
		var calls float64
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if _, err := fmt.Sscanf(rest, "calls=%f,", &calls); err != nil {
			continue
		}
		switch info := commands[name]; {
		case info == nil:
		case slices.Contains(info.Flags, "write"):
			r.writes += calls
		case slices.Contains(info.Flags, "readonly"):
			r.reads += calls
		}
	}
	return r, nil
}
