package config

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// groupReader builds the task lists out of nodes.
type groupReader struct {
	taskReader
	names named
}

// parts is a group as it stands in the files: joined when it is named in several.
type parts struct {
	name   string
	node   *decode.Node // where it is named first
	tasks  []*decode.Node
	joined decode.Node // has all fields but name and tasks
}

// groups builds the groups of all files, in the order in which they are first named.
func (l groupReader) groups(files []*decode.Node) ([]settings.Group, []groupSource) {
	var all []*parts
	for _, file := range files {
		here := map[string]*decode.Node{}
		for _, n := range file.Get("groups").List() {
			name := n.Get("name")
			text := l.name(name)
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
		groups[i], sources[i] = l.group(p)
	}
	return groups, sources
}

// name reads the name of a group. The schema lets through what holds "$(", since that may have been a variable; here it
// is final.
func (l groupReader) name(n *decode.Node) string {
	text, ok := l.Value(n)
	if ok && !settings.IsDNSName(text) {
		l.Refuse(n, n.Rule.Allowed())
	}
	return text
}

// fill adds what one file says of a group. All but its tasks stands in one file.
func (l groupReader) fill(p *parts, n *decode.Node) {
	for _, e := range n.Entries {
		is := content(e.Name, e.Value)
		switch first := content(e.Name, p.joined.Get(e.Name)); {
		case e.Name == "name" || is == nil || is.Shape == decode.Void || is.Rule == nil:
		case e.Name == "tasks":
			p.tasks = append(p.tasks, is.List()...)
		case first != nil:
			l.Add(is, "group %q has %s in %s as well: it may stand in one file", p.name, e.Name, first.Place)
		default:
			p.joined.Entries = append(p.joined.Entries, e)
		}
	}
}

// content is what counts of a field of a group: there is nothing in instances but the selector.
func content(name string, n *decode.Node) *decode.Node {
	if name == "instances" {
		return n.Get("selector")
	}
	return n
}

func (l groupReader) group(p *parts) (g settings.Group, from groupSource) {
	g = settings.Group{Name: p.name}
	from = groupSource{written: written{}, discover: written{}}
	fields := settings.GroupFieldsOf(&g, nil)
	fields.Read(&p.joined, l.Reader)
	for _, f := range fields {
		if _, elsewhere := f.Value.(field.Elsewhere); !elsewhere {
			from.written.note(f.Name, p.joined.Get(f.Name))
		}
	}
	defaults, template := p.joined.Get("defaults"), p.joined.Get("template")
	slots, asked, weights := p.joined.Get("slots"), p.joined.Get("discover"), p.joined.Get("weightFrom")
	var lines []string
	for _, n := range p.tasks {
		if n.Shape != decode.Mapping {
			continue // the schema's check has said so
		}
		merged := withDefaults(l.opts.Kinds, n, defaults)
		names := taskNames(&l.Problems, n, settings.MaxNames-len(g.Tasks))
		l.names.once(&l.Problems, p.name, names)
		built := l.tasks(merged, names, p.name)
		g.Tasks = append(g.Tasks, built...)
		from.tasks = append(from.tasks, slices.Repeat([]written{taskWritten(l.opts.Kinds, merged)}, len(built))...)
		lines = append(lines, canonical(merged))
	}
	if slots != nil {
		from.slots = l.slots(p, &g)
		lines = append(lines, canonicalSlots(slots, from.slots))
	}
	if asked != nil || template != nil && slots == nil {
		g.Discover, from.template = l.discover(p)
		from.discover.note("", asked)
		lines = append(lines, canonicalDiscover(&p.joined))
	}
	if l.checkWeights(weights, &g, from.template); g.WeightFrom != settings.WeightDeclared {
		lines = append(lines, jsonText(map[string]any{"weightFrom": weights.Written()}))
	}
	g.Hash = listHash(p.joined.At("instances", "selector"), lines)
	return g, from
}

// checkWeights looks at what a group's weights come from. Where it is measured of nothing in the group, that is an
// error.
func (l groupReader) checkWeights(n *decode.Node, g *settings.Group, found *template) {
	from := g.WeightFrom
	if !from.Measured() || n.IsBad() {
		return
	}
	measured := slices.ContainsFunc(g.Tasks, func(t tasks.Task) bool { return g.Measures(&t) })
	if found != nil {
		k := kindOf(l.opts.Kinds, found.node)
		_, subscription := k.(kind.TaskKind)
		measured = measured || from == settings.WeightLag && subscription ||
			k != nil && slices.Contains(from.Kinds(), k.Name())
	}
	switch {
	case measured:
		return
	case from == settings.WeightLag:
		l.Add(n, "is %s, but the group has no subscription: only these are ever behind, leave it out", n.Quoted())
	case from == settings.WeightCPU:
		l.Add(n, "is %s, but the group has no task with exec: only the processor time of these is measured, "+
			"leave it out", n.Quoted())
	default:
		l.Add(n, "is %s, but the group has no task with callback or assign: only these report a load, leave it out",
			n.Quoted())
	}
	g.WeightFrom = settings.WeightDeclared
}

// slots adds a task of the template for each slot of a group, behind those that have names, and returns the template;
// nil where it is wrong.
func (l groupReader) slots(p *parts, g *settings.Group) *template {
	n, template, count := p.joined.Get("slots"), p.joined.Get("template"), g.Slots
	g.Slots = 0
	switch most := settings.MaxNames - len(g.Tasks); {
	case p.joined.Get("discover") != nil:
		l.Add(n, "is set together with discover: a group has one of them, or neither")
		return nil
	case template == nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"),
			"is required with slots: it is what runs for each of them")
		return nil
	case template.Shape != decode.Mapping:
		return nil // the schema's check has said so
	case !n.Bad && count > most:
		l.Refuse(n, fmt.Sprintf("at most %d beside the group's %d tasks", most, len(g.Tasks)))
		count = 0
	}
	made := names{node: n, all: tasks.SlotNames(count), numbered: true}
	l.names.once(&l.Problems, p.name, made)
	node := withDefaults(l.opts.Kinds, template, p.joined.Get("defaults"))
	g.Slots = count
	g.Tasks = append(g.Tasks, l.tasks(node, made, p.name)...)
	return newTemplate(l.taskReader, p.name, node)
}

// namedTasks are the group's tasks that are neither slots nor discovered.
func namedTasks(g *settings.Group) []tasks.Task { return g.Tasks[:len(g.Tasks)-g.Slots] }
