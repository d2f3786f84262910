package redis

import (
	"cmp"
	"context"
	"strconv"

	"github.com/shardctl/shardctl/pkg/store"
)

// Inspect says which server this is and how its writes become durable. See [store.Inspect].
func (b *backend) Inspect(ctx context.Context) (store.Inspection, error) {
	d, err := b.describe(ctx)
	if err != nil {
		return store.Inspection{}, err
	}
	server := "Redis " + d.info["redis_version"]
	if valkey := d.info["valkey_version"]; valkey != "" {
		server = "Valkey " + valkey
	}
	const unseen = "not readable by this user"
	config := func(name, want string) store.Setting {
		value := cmp.Or(d.config[name], unseen)
		return store.Setting{Name: name, Value: value, Want: want, Holds: value == want, Forgets: true}
	}
	appendOnly := "no"
	if d.info["aof_enabled"] == "1" {
		appendOnly = "yes"
	}
	connected, _ := strconv.Atoi(d.info["connected_slaves"])
	servers := store.Setting{
		Name: "nodes", Value: strconv.Itoa(connected + 1), Want: strconv.Itoa(b.nodes) + " (configured)",
		Holds: connected+1 == b.nodes,
	}
	g, err := b.readGate(ctx)
	if err != nil {
		return store.Inspection{}, err
	}
	return store.Inspection{Server: server, Settings: append([]store.Setting{
		{Name: "appendonly", Value: appendOnly, Want: "yes", Holds: appendOnly == "yes", Forgets: true},
		config("appendfsync", "always"),
		{
			Name: "maxmemory-policy", Value: d.info["maxmemory_policy"], Want: "noeviction", Holds: !d.evicts(),
			Forgets: true,
		},
		config("replica-read-only", "yes"),
		servers,
	}, g.settings(b.nodes, d.identity())...)}, nil
}
