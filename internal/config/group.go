package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// parts is a group as it stands in the files: joined when it is named in several.
type parts struct {
	name     string
	node     *decode.Node // where it is named first
	cap      *decode.Node
	selector *decode.Node
	defaults *decode.Node
	discover *decode.Node
	template *decode.Node
	weights  *decode.Node
	slots    *decode.Node
	tasks    []*decode.Node
}

// listReader builds the task lists out of nodes.
type listReader struct {
	fieldReader
	names map[string]*decode.Node // where each key GROUP/NAME is written
}

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

// taskWritten is what of a task came from outside; what it runs stays as it is written anyway.
func (l *listReader) taskWritten(n *decode.Node) written {
	var w written
	for _, e := range n.Entries {
		if _, runs := l.opts.Kinds.Lookup(e.Name); e.Name == "name" || runs && e.Value.Shape != decode.Scalar {
			continue
		}
		if w == nil {
			w = written{}
		}
		w.note(e.Name, e.Value)
	}
	if len(w) == 0 {
		return nil
	}
	return w
}

// names are those that one task's node makes.
type names struct {
	node     *decode.Node
	all      []string
	numbered bool // each has an index: by braces, or as a slot
}

// taskNames expands the braces of a task's name. There is always one name at least, so that the rest is checked.
func (l *listReader) taskNames(task *decode.Node, limit int) names {
	n := task.Get("name")
	if n == nil || n.Shape != decode.Scalar || n.Bad {
		return names{node: task}
	}
	if !n.Settled {
		l.Add(n, "%s holds one of the task's own variables, which depend on its name", n.Quoted())
		return names{node: task}
	}
	made, err := braceNames(n.Text, max(limit, 0))
	if err != nil {
		l.Add(n, "%s %v", n.Quoted(), err)
		return names{node: n}
	}
	for _, name := range made {
		if !settings.IsTaskName(name) {
			l.reportName(n, name)
			return names{node: n}
		}
	}
	return names{node: n, all: made, numbered: hasBraces(n.Text)}
}

func (l *listReader) reportName(n *decode.Node, name string) {
	switch {
	case strings.Contains(n.Raw, "$(") || name == n.Text:
		l.Refuse(n, settings.TaskNames)
	default:
		l.Add(n, "%s makes the name %q, must be %s", n.Quoted(), variables.Clipped(name), settings.TaskNames)
	}
}

// once refuses tasks that are named twice, one error for each pair of places.
func (l *listReader) once(group string, made names) {
	count := map[*decode.Node]int{}
	example := map[*decode.Node]string{}
	var order []*decode.Node
	for _, name := range made.all {
		key := group + "/" + name
		first, twice := l.names[key]
		if !twice {
			l.names[key] = made.node
			continue
		}
		if count[first]++; count[first] == 1 {
			order, example[first] = append(order, first), name
		}
	}
	for _, first := range order {
		also := "at " + first.String() + " as well"
		if first == made.node {
			also = "twice by these braces"
		}
		if n := count[first] - 1; n > 0 {
			also += fmt.Sprintf(" (and %d more)", n)
		}
		l.Add(made.node, "task %q is named %s: a task stands once in a group", example[first], also)
	}
}

// canonical is a task as it is written, its defaults included, and the names it makes but for their braces. The order
// of fields, comments and files does not change it.
func canonical(task *decode.Node) string {
	name := task.Get("name")
	text := ""
	if name != nil {
		text = name.Text
	}
	return jsonText(map[string]any{"name": text, "task": task.Written()})
}

// listHash is the same for the same tasks in any order.
func listHash(selector *decode.Node, written []string) string {
	slices.Sort(written)
	var who any
	if selector != nil {
		who = selector.Written()
	}
	sum := sha256.Sum256([]byte(jsonText(map[string]any{"selector": who, "tasks": written})))
	return hex.EncodeToString(sum[:8])
}

// jsonText marshals what [node.written] gives: texts, mappings and lists, with which it cannot fail.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fieldReader reads the fields that have forms of their own.
type fieldReader struct {
	*decode.Reader
	opts Options
}

// matching reads text that has a form. The schema lets through what holds "$(", since that may have been a variable;
// here it is final.
func (l fieldReader) matching(is func(string) bool, n *decode.Node, unset string) string {
	text := l.Text(n, unset)
	if n != nil && !n.Bad && n.Shape == decode.Scalar && !is(text) {
		l.Refuse(n, n.Rule.Allowed())
	}
	return text
}
