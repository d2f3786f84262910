package replica

import (
	"context"
	"os"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// looking has this replica look for what exists in the groups whose lock it gets.
func (cs *chores) looking() *chore {
	log := cs.log.WithName("discovery")
	return cs.chore(log, &chore{
		space: record.GroupDiscovery, message: "it looks for what exists",
		wanted: func(g *config.Group) bool { return g.Discover != nil && g.Discover.Lister != nil },
		work: func(ctx context.Context, g *config.Group, s *config.Settings, token int64) error {
			return looker(cs.node.store, g, s, cs.functions, log).Run(ctx, token)
		},
	})
}

func looker(
	db store.Store, g *config.Group, s *config.Settings, f *discover.Functions, log logr.Logger,
) discovery.Looker {
	return discovery.Looker{
		Store: db, Group: g.Name, Instance: s.Instance, Lister: g.Discover.Lister,
		Env:      discover.Env{Group: g.Name, Lookup: os.LookupEnv, Functions: f},
		Interval: g.Discover.Interval,
		Rules:    discovery.Rules{Grace: g.Discover.Grace, Limit: g.Discover.Limit},
		Logger:   log,
	}
}
