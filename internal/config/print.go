package config

import (
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
)

// Print writes the effective configuration as YAML: every default, braces expanded. Values that come from outside
// the files stand as they are written, $(NAME) or $(file:PATH), and secrets are hidden: passwords of URIs, and what has
// the name of one.
func (c *Config) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(mappingOf(c.source.written.over("", c.fields()))); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

// mapping is printed in the order of its fields, without what is nil.
type mapping decode.Fields

// MarshalYAML makes a node.
func (m mapping) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range m {
		if f.Value == nil {
			continue
		}
		var name, value yaml.Node
		name.SetString(f.Name)
		if err := value.Encode(mappingOf(f.Value)); err != nil {
			return nil, err
		}
		n.Content = append(n.Content, &name, &value)
	}
	return n, nil
}

// mappingOf is value for the encoder.
func mappingOf(value any) any {
	switch v := value.(type) {
	case decode.Fields:
		return mapping(v)
	case []decode.Fields:
		all := make([]mapping, len(v))
		for i, fields := range v {
			all[i] = mapping(fields)
		}
		return all
	default:
		return value
	}
}

func (c *Config) fields() decode.Fields {
	s := c.Settings
	groups := make([]decode.Fields, len(s.Groups))
	for i := range s.Groups {
		groups[i] = groupFields(&s.Groups[i], &c.source.groups[i], s.Lease.Duration)
	}
	database := decode.TextOrNil(s.Store.Database)
	if _, outside := c.source.written["store.uri"]; outside && !c.source.databaseNamed {
		database = nil // it is the URI's
	}
	return decode.Pairs(
		"version", 1,
		"cluster", s.Cluster,
		"instance", s.Instance,
		"zone", s.Zone,
		"labels", decode.Map(s.Labels),
		"revision", s.Revision,
		"maxTasks", s.MaxTasks,
		"rollout", s.Rollout,
		"pod", decode.Pairs("uid", s.Pod.UID, "container", s.Pod.Container, "dir", s.Pod.Dir),
		"store", decode.Pairs("uri", s.Store.Masked(), "database", database),
		"lease", decode.Pairs("duration", s.Lease.Duration, "renewDeadline", s.Lease.RenewDeadline),
		"rebalance", decode.Pairs(
			"settle", s.Rebalance.Settle, "maxMoves", s.Rebalance.MaxMoves,
			"onRestart", string(s.Rebalance.OnRestart), "restartGrace", s.Rebalance.RestartGrace,
		),
		"shutdown", decode.Pairs("timeout", s.Shutdown.Timeout),
		"server", decode.Pairs(
			"listen", s.Server.Listen, "advertise", s.Server.Advertise, "hosts", append([]string{}, s.Server.Hosts...),
			"logs", string(s.Server.Logs), "route", s.Server.Route,
			"tls", append(tlsFields(s.Server.TLS), decode.Pairs("caFile", s.Server.TLS.CAFile)...),
		),
		"app", decode.Pairs(
			"listen", s.App.Listen, "tokenFile", s.App.TokenFile, "command", decode.WithoutSecretsOf(s.App.Command),
			"address", s.App.Address,
		),
		"admin", decode.Pairs("listen", s.Admin.Listen, "tokensFile", s.Admin.TokensFile, "tls", tlsFields(s.Admin.TLS)),
		"metrics", decode.Pairs("perTask", s.Metrics.PerTask),
		"log", decode.Pairs("level", s.Log.Level, "format", s.Log.Format),
		"groups", groups,
	)
}

func tlsFields(t settings.TLS) decode.Fields {
	return decode.Pairs("certFile", t.CertFile, "keyFile", t.KeyFile)
}

func groupFields(g *settings.Group, from *groupSource, lease time.Duration) decode.Fields {
	all := make([]decode.Fields, len(namedTasks(g)))
	for i, t := range namedTasks(g) {
		all[i] = from.tasks[i].over("", fieldsOf(t, kind.Use{Ticks: t.Ticks(), Lease: lease}))
	}
	shown := decode.Pairs("name", g.Name)
	if g.Cap != nil {
		shown = append(shown, decode.Pairs("cap", *g.Cap)...)
	}
	if g.WeightFrom.Measured() {
		shown = append(shown, decode.Pairs("weightFrom", string(g.WeightFrom))...)
	}
	if len(g.Selector) > 0 {
		shown = append(shown, decode.Pairs("instances", decode.Pairs("selector", decode.Map(g.Selector)))...)
	}
	shown = append(from.written.over("", shown), decode.Pairs("tasks", all)...)
	shown = append(shown, slotFields(g, from, kind.Use{Lease: lease})...)
	if g.Discover != nil {
		shown = append(shown, discoverFields(g.Discover, from, kind.Use{Lease: lease})...)
	}
	return shown
}
