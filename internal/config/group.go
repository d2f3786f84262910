package config

import (
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// groups builds the groups of all files, in the order in which they are first named.
func (l *listReader) groups(files []*decode.Node, s *settings.Settings) ([]settings.Group, []groupSource) {
	var all []*parts
	for _, file := range files {
		here := map[string]*decode.Node{}
		for _, n := range file.Get("groups").List() {
			name := n.Get("name")
			text := l.matching(settings.IsDNSName, name, "")
			if text == "" || name.Bad {
				// Its tasks are checked all the same, as a group of their own.
				all = append(all, &parts{node: n})
				l.fill(all[len(all)-1], n)
				continue
			}
			if first := here[text]; first != nil {
				l.Add(name, "group %q is named in line %d as well: a group stands once in a file",
					variables.Clipped(text), first.Line)
			}
			here[text] = name
			i := slices.IndexFunc(all, func(p *parts) bool { return p.name == text })
			if i < 0 {
				i = len(all)
				all = append(all, &parts{name: text, node: n})
			}
			l.fill(all[i], n)
		}
	}
	groups, sources := make([]settings.Group, len(all)), make([]groupSource, len(all))
	for i, p := range all {
		groups[i], sources[i] = l.group(p, s)
	}
	return groups, sources
}

// fill adds what one file says of a group. All but its tasks stands in one file.
func (l *listReader) fill(p *parts, n *decode.Node) {
	once := func(into **decode.Node, name string, value *decode.Node) {
		if value == nil {
			return
		}
		if *into != nil {
			l.Add(value, "group %q has %s in %s as well: it may stand in one file", p.name, name, (*into).Place)
			return
		}
		*into = value
	}
	once(&p.cap, "cap", n.Get("cap"))
	once(&p.selector, "instances", n.At("instances", "selector"))
	once(&p.defaults, "defaults", n.Get("defaults"))
	once(&p.discover, "discover", n.Get("discover"))
	once(&p.template, "template", n.Get("template"))
	once(&p.weights, "weightFrom", n.Get("weightFrom"))
	once(&p.slots, "slots", n.Get("slots"))
	p.tasks = append(p.tasks, n.Get("tasks").List()...)
}

func (l *listReader) group(p *parts, s *settings.Settings) (g settings.Group, from groupSource) {
	g = settings.Group{Name: p.name, Selector: field.ReadLabels(p.selector, l.Reader)}
	from = groupSource{written: written{}, discover: written{}}
	from.written.note("cap", p.cap)
	from.written.note("instances.selector", p.selector)
	if n := p.cap; n != nil {
		limit := l.Count(n)
		g.Cap = &limit
	}
	var lines []string
	for _, n := range p.tasks {
		if n.Shape != decode.Mapping {
			continue // the schema's check has said so
		}
		merged := l.withDefaults(n, p.defaults)
		names := l.taskNames(n, settings.MaxNames-len(g.Tasks))
		if p.name != "" {
			l.once(p.name, names)
		}
		built := l.tasks(merged, names, p.name, s)
		g.Tasks = append(g.Tasks, built...)
		from.tasks = append(from.tasks, slices.Repeat([]written{l.taskWritten(merged)}, len(built))...)
		lines = append(lines, canonical(merged))
	}
	if p.slots != nil {
		from.written.note("slots", p.slots)
		from.slots = l.slots(p, &g, s)
		lines = append(lines, canonicalSlots(p, from.slots))
	}
	if p.discover != nil || p.template != nil && p.slots == nil {
		g.Discover, from.template = l.discover(p, s)
		from.discover.note("", p.discover)
		lines = append(lines, canonicalDiscover(p))
	}
	if g.WeightFrom = l.weightFrom(p.weights, &g, from.template); g.WeightFrom != settings.WeightDeclared {
		lines = append(lines, jsonText(map[string]any{"weightFrom": p.weights.Written()}))
	}
	from.written.note("weightFrom", p.weights)
	g.Hash = listHash(p.selector, lines)
	return g, from
}

// weightFrom reads what a group's weights come from. Where it is measured of nothing in the group, that is an error.
func (l *listReader) weightFrom(n *decode.Node, g *settings.Group, found *template) settings.WeightFrom {
	from := settings.WeightFrom(l.Text(n, string(settings.WeightDeclared)))
	if !from.Measured() || n.IsBad() {
		return from
	}
	of := settings.Group{WeightFrom: from}
	measured := slices.ContainsFunc(g.Tasks, func(t tasks.Task) bool { return of.Measures(&t) })
	if found != nil {
		k := l.kindOf(found.node)
		_, subscription := k.(kind.TaskKind)
		measured = measured || from == settings.WeightLag && subscription ||
			k != nil && slices.Contains(from.Kinds(), k.Name())
	}
	switch {
	case measured:
		return from
	case from == settings.WeightLag:
		l.Add(n, "is %s, but the group has no subscription: only these are ever behind, leave it out", n.Quoted())
	case from == settings.WeightCPU:
		l.Add(n, "is %s, but the group has no task with exec: only the processor time of these is measured, leave it out",
			n.Quoted())
	default:
		l.Add(n, "is %s, but the group has no task with callback or assign: only these report a load, leave it out",
			n.Quoted())
	}
	return settings.WeightDeclared
}
