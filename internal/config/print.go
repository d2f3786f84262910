package config

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Print writes the effective configuration as YAML: every default, braces expanded. Values that come from outside
// the files stand as they are written, $(NAME) or $(file:PATH), and passwords of URIs are hidden.
func (s *Settings) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(mappingOf(s.written.over("", s.fields()))); err != nil {
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

func (s *Settings) fields() decode.Fields {
	groups := make([]decode.Fields, len(s.Groups))
	for i, g := range s.Groups {
		groups[i] = g.fields(s)
	}
	database := decode.TextOrNil(s.Store.Database)
	if _, outside := s.written["store.uri"]; outside && !s.Store.named {
		database = nil // it is the URI's
	}
	return decode.Fields{
		{Name: "version", Value: 1},
		{Name: "cluster", Value: s.Cluster},
		{Name: "instance", Value: s.Instance},
		{Name: "zone", Value: s.Zone},
		{Name: "labels", Value: decode.Map(s.Labels)},
		{Name: "revision", Value: s.Revision},
		{Name: "maxTasks", Value: s.MaxTasks},
		{Name: "rollout", Value: s.Rollout},
		{Name: "pod", Value: decode.Fields{
			{Name: "uid", Value: s.Pod.UID}, {Name: "container", Value: s.Pod.Container}, {Name: "dir", Value: s.Pod.Dir},
		}},
		{Name: "store", Value: decode.Fields{{Name: "uri", Value: s.Store.Masked()}, {Name: "database", Value: database}}},
		{Name: "lease", Value: decode.Fields{
			{Name: "duration", Value: decode.Short(s.Lease.Duration)}, {Name: "renewDeadline", Value: decode.Short(s.Lease.RenewDeadline)},
		}},
		{Name: "rebalance", Value: decode.Fields{
			{Name: "settle", Value: decode.Short(s.Rebalance.Settle)},
			{Name: "maxMoves", Value: s.Rebalance.MaxMoves},
			{Name: "onRestart", Value: string(s.Rebalance.OnRestart)},
			{Name: "restartGrace", Value: decode.Short(s.Rebalance.RestartGrace)},
		}},
		{Name: "shutdown", Value: decode.Fields{{Name: "timeout", Value: decode.Short(s.Shutdown.Timeout)}}},
		{Name: "server", Value: decode.Fields{
			{Name: "listen", Value: s.Server.Listen},
			{Name: "advertise", Value: s.Server.Advertise},
			{Name: "tls", Value: append(s.Server.TLS.fields(), decode.Field{Name: "caFile", Value: s.Server.TLS.CAFile})},
		}},
		{Name: "admin", Value: decode.Fields{
			{Name: "listen", Value: s.Admin.Listen}, {Name: "tokensFile", Value: s.Admin.TokensFile}, {Name: "tls", Value: s.Admin.TLS.fields()},
		}},
		{Name: "metrics", Value: decode.Fields{{Name: "perTask", Value: s.Metrics.PerTask}}},
		{Name: "log", Value: decode.Fields{{Name: "level", Value: s.Log.Level}, {Name: "format", Value: s.Log.Format}}},
		{Name: "groups", Value: groups},
	}
}

func (t TLS) fields() decode.Fields {
	return decode.Fields{{Name: "certFile", Value: t.CertFile}, {Name: "keyFile", Value: t.KeyFile}}
}

func (g Group) fields(s *Settings) decode.Fields {
	all := make([]decode.Fields, len(g.Tasks))
	for i, t := range g.Tasks {
		all[i] = fieldsOf(t, tasks.Use{Ticks: t.Ticks(), Lease: s.Lease.Duration})
		if i < len(g.tasksWritten) {
			all[i] = g.tasksWritten[i].over("", all[i])
		}
	}
	shown := decode.Fields{{Name: "name", Value: g.Name}}
	if g.Cap != nil {
		shown = append(shown, decode.Field{Name: "cap", Value: *g.Cap})
	}
	if len(g.Selector) > 0 {
		shown = append(shown, decode.Field{Name: "instances", Value: decode.Fields{{Name: "selector", Value: decode.Map(g.Selector)}}})
	}
	return append(g.written.over("", shown), decode.Field{Name: "tasks", Value: all})
}

// fieldsOf are the fields that go with the task, so that what is printed is a configuration as well.
func fieldsOf(t tasks.Task, use tasks.Use) decode.Fields {
	shown := decode.Fields{
		{Name: "name", Value: t.Name},
		{Name: "labels", Value: decode.Map(t.Labels)},
		{Name: "weight", Value: t.Weight},
		{Name: t.Kind(), Value: t.Runner.Print(use)},
		{Name: "stop", Value: decode.Fields{{Name: "signal", Value: t.Stop.Signal}, {Name: "timeout", Value: decode.Short(t.Stop.Timeout)}}},
	}
	if !t.Ticks() {
		return append(shown,
			decode.Field{Name: "restart", Value: string(t.Restart)},
			decode.Field{Name: "backoff", Value: append(backoffFields(t.Backoff), decode.Field{Name: "resetAfter", Value: decode.Short(t.Backoff.ResetAfter)})},
			decode.Field{Name: "maxRestarts", Value: t.MaxRestarts},
		)
	}
	if t.Schedule != "" {
		shown = append(shown, decode.Field{Name: "schedule", Value: t.Schedule}, decode.Field{Name: "timeZone", Value: t.TimeZone})
	} else {
		shown = append(shown, decode.Field{Name: "every", Value: decode.Short(t.Every)})
	}
	return append(shown,
		decode.Field{Name: "overlap", Value: string(t.Overlap)},
		decode.Field{Name: "catchUp", Value: string(t.CatchUp)},
		decode.Field{Name: "catchUpWindow", Value: decode.Short(t.CatchUpWindow)},
		decode.Field{Name: "timeout", Value: decode.Short(t.Timeout)},
		decode.Field{Name: "retry", Value: decode.Fields{{Name: "attempts", Value: t.Retry.Attempts}, {Name: "backoff", Value: backoffFields(t.Retry.Backoff)}}},
	)
}

func backoffFields(b tasks.Backoff) decode.Fields {
	return decode.Fields{{Name: "initial", Value: decode.Short(b.Initial)}, {Name: "max", Value: decode.Short(b.Max)}}
}
