package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
)

// gate is what the gate keeps. Fields are empty where it keeps nothing.
type gate struct {
	Identity string `redis:"identity"` // at which keys may be claimed
	Lease    string `redis:"lease"`    // in ms
	Nodes    string `redis:"nodes"`    // as configured when it was opened
	Seen     string `redis:"seen"`     // how many servers scripts have met, where that was more than nodes
	Met      string `redis:"met"`      // their addresses, each between spaces
}

// readGate reads the gate as the master has it.
func (a *access) readGate(ctx context.Context) (g gate, err error) {
	err = a.others.use(ctx, func(c *redis.Client) error {
		return c.HMGet(ctx, a.keys.gate(), "identity", "lease", "nodes", "seen", "met").Scan(&g)
	})
	return g, err
}

// shut says whether the gate stays closed until an operator deletes its key.
func (g gate) shut(nodes int) bool {
	seen, err := strconv.Atoi(g.Seen)
	return err == nil && seen > nodes
}

// settings are what people look for when no key is claimed. identity is that of the server that was asked.
func (g gate) settings(nodes int, identity string) []store.Setting {
	state := "closed: no key was claimed since the master or its replicas changed"
	if g.Identity == identity {
		state = "open"
	}
	lease := "none yet"
	if ms, err := strconv.ParseInt(g.Lease, 10, 64); err == nil {
		lease = (time.Duration(ms) * time.Millisecond).String()
	}
	met := "no"
	if g.Seen != "" {
		met = strings.TrimSpace(g.Seen + g.Met)
	}
	return []store.Setting{
		{Name: "gate", Value: state, Holds: true},
		{Name: "lease kept in the gate", Value: lease, Holds: true},
		{
			Name: "too many nodes seen", Value: met, Want: "at most " + strconv.Itoa(nodes), Holds: !g.shut(nodes),
		},
	}
}
