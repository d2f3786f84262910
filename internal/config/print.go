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
	groups := make([]decode.Fields, len(c.Groups))
	for i := range c.Groups {
		groups[i] = groupFields(&c.Groups[i], &c.source.groups[i], c.Lease.Duration)
	}
	return settings.FieldsOf(c.Settings, groups).Print()
}

func groupFields(g *settings.Group, from *groupSource, lease time.Duration) decode.Fields {
	all := make([]decode.Fields, len(namedTasks(g)))
	for i, t := range namedTasks(g) {
		all[i] = from.tasks[i].over("", fieldsOf(t, kind.Use{Ticks: t.Ticks(), Lease: lease}))
	}
	shows := decode.Pairs("tasks", all)
	if from.slots != nil {
		first := g.Tasks[len(namedTasks(g))]
		shows = append(shows, decode.Pairs("template", from.slots.fields(first, kind.Use{Lease: lease}))...)
	}
	if g.Discover != nil {
		shows = append(shows, discoverFields(g.Discover, from, kind.Use{Lease: lease})...)
	}
	return from.written.over("", settings.GroupFieldsOf(g, shows).Print())
}
