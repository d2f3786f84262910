package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// parts is a group as it stands in the files: joined when it is named in several.
type parts struct {
	name     string
	node     *node // where it is named first
	cap      *node
	selector *node
	defaults *node
	tasks    []*node
}

// groups builds the groups of all files, in the order in which they are first named.
func (l *loader) groups(files []*node, s *Settings) []Group {
	var all []*parts
	for _, file := range files {
		here := map[string]*node{}
		for _, n := range file.get("groups").list() {
			name := n.get("name")
			text := l.dns(name, "")
			if text == "" || name.bad {
				// Its tasks are checked all the same, as a group of their own.
				all = append(all, &parts{node: n})
				l.fill(all[len(all)-1], n)
				continue
			}
			if first := here[text]; first != nil {
				l.add(name, "group %q is named in line %d as well: a group stands once in a file", clipped(text), first.line)
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
	var groups []Group
	for _, p := range all {
		groups = append(groups, l.group(p, s))
	}
	return groups
}

func (n *node) list() []*node {
	if n == nil {
		return nil
	}
	return n.items
}

// fill adds what one file says of a group. Its cap, instances and defaults stand in one file.
func (l *loader) fill(p *parts, n *node) {
	once := func(into **node, name string, value *node) {
		if value == nil {
			return
		}
		if *into != nil {
			l.add(value, "group %q has %s in %s as well: it may stand in one file", p.name, name, (*into).place())
			return
		}
		*into = value
	}
	once(&p.cap, "cap", n.get("cap"))
	once(&p.selector, "instances", n.at("instances", "selector"))
	once(&p.defaults, "defaults", n.get("defaults"))
	p.tasks = append(p.tasks, n.get("tasks").list()...)
}

func (l *loader) group(p *parts, s *Settings) Group {
	g := Group{Name: p.name, Selector: l.labels(p.selector)}
	if n := p.cap; n != nil {
		limit := l.count(n)
		g.Cap = &limit
	}
	var written []string
	for _, n := range p.tasks {
		if n.kind != mapping {
			continue // the schema's check has told
		}
		merged := withDefaults(n, p.defaults)
		names := l.taskNames(n, maxNames-len(g.Tasks))
		if p.name != "" {
			l.once(p.name, names)
		}
		g.Tasks = append(g.Tasks, l.tasks(merged, names, p.name, s)...)
		written = append(written, canonical(merged))
	}
	g.Hash = listHash(p.selector, written)
	return g
}

// names are those that one task's node makes.
type names struct {
	node   *node
	all    []string
	braces bool
}

var taskName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,248}$`)

// taskNames expands the braces of a task's name. There is always one name at least, so that the rest is checked.
func (l *loader) taskNames(task *node, limit int) names {
	n := task.get("name")
	if n == nil || n.kind != scalar || n.bad {
		return names{node: task}
	}
	if !n.settled {
		l.add(n, "%s holds one of the task's own variables, which depend on its name", n.quoted())
		return names{node: task}
	}
	made, err := braceNames(n.text, max(limit, 0))
	if err != nil {
		l.add(n, "%s %v", n.quoted(), err)
		return names{node: n}
	}
	for _, name := range made {
		if !taskName.MatchString(name) {
			l.tellName(n, name)
			return names{node: n}
		}
	}
	return names{node: n, all: made, braces: hasBraces(n.text)}
}

func (l *loader) tellName(n *node, name string) {
	const allowed = "at most 249 letters, digits, '_', '.' and '-', beginning with a letter, digit or '_'"
	switch {
	case strings.Contains(n.raw, "$(") || name == n.text:
		l.refuse(n, allowed)
	default:
		l.add(n, "%s makes the name %q, must be %s", n.quoted(), clipped(name), allowed)
	}
}

// once tells about tasks that are named twice, one error for each pair of places.
func (l *loader) once(group string, made names) {
	count := map[*node]int{}
	example := map[*node]string{}
	var order []*node
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
		also := "at " + first.place() + " as well"
		if first == made.node {
			also = "twice by these braces"
		}
		if n := count[first] - 1; n > 0 {
			also += fmt.Sprintf(" (and %d more)", n)
		}
		l.add(made.node, "task %q is named %s: a task stands once in a group", example[first], also)
	}
}

// canonical is a task as it is written, its defaults included, and the names it makes but for their braces: what the order of
// fields, comments and files does not change.
func canonical(task *node) string {
	name := task.get("name")
	text := ""
	if name != nil {
		text = name.text
	}
	return jsonText(map[string]any{"name": text, "task": task.written()})
}

// listHash is the same for the same tasks in any order.
func listHash(selector *node, written []string) string {
	slices.Sort(written)
	var who any
	if selector != nil {
		who = selector.written()
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
