package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// minInterval bounds how often a place is asked.
const minInterval = time.Second

// discover reads a group's discover and template, which go together. The template is nil where there is none.
func (l *listReader) discover(p *parts, s *settings.Settings) (*settings.Discover, *template) {
	n := p.discover
	switch {
	case n == nil:
		l.Add(p.template, "goes with discover or slots only: it is what runs for each of them")
		return nil, nil
	case n.Shape != decode.Mapping:
		return nil, nil // the schema's check has said so
	case p.template == nil && p.node != nil:
		l.AddAt(n.Place, decode.Under(p.node.Field(), "template"),
			"is required with discover: it is what runs for each that is found")
	}
	d := &settings.Discover{
		Interval: l.Duration(n.Get("interval"), settings.DefaultInterval),
		Grace:    l.Duration(n.Get("grace"), settings.DefaultGrace),
		Limit:    settings.DefaultLimit,
	}
	if d.Interval < minInterval {
		l.Refuse(n.Get("interval"), "at least "+decode.Short(minInterval))
	}
	if limit := n.Get("limit"); limit != nil {
		d.Limit = l.Count(limit)
	}
	d.Lister = l.lister(n)
	if p.template == nil || p.template.Shape != decode.Mapping {
		return d, nil
	}
	node := l.withDefaults(p.template, p.defaults)
	l.warnOfShell(node)
	l.warnOfBody(node)
	l.warnOfJSON(node)
	t := &template{
		opts: l.opts, node: node, group: p.name, settings: s, each: variesByName(node), files: discoveredFiles(node),
	}
	// What is wrong with the template is wrong for any name.
	t.build(l, node, discover.Found{Name: "x", Partition: "0"})
	d.Template = t
	return d, t
}

// lister reads who is asked: the one field of discover that names a kind.
func (l *listReader) lister(n *decode.Node) discover.Lister {
	var has []discover.Kind
	for _, kind := range l.opts.Listers.All() {
		if n.Get(kind.Name()) != nil {
			has = append(has, kind)
		}
	}
	names := strings.Join(l.opts.Listers.Names(), ", ")
	switch {
	case n.Bad:
		return nil
	case len(has) == 0:
		l.AddAt(n.Place, n.Field(), "has no one to ask, must have exactly one of %s", names)
		return nil
	case len(has) > 1:
		l.AddAt(n.Place, n.Field(), "has %s and %s, must have exactly one of %s", has[0].Name(), has[1].Name(), names)
		return nil
	}
	l.AtStart = func(name string) (string, bool) {
		if variables.IsOwn(name) {
			return "", name == variables.Group
		}
		return l.opts.Env(name)
	}
	l.Scope = l.AtStart
	asked := n.Get(has[0].Name())
	lister := has[0].Parse(asked, l.Reader)
	l.AddFieldErrors(asked, lister.Validate())
	return lister
}

// canonicalDiscover is what stands of discover and its template, as canonical is of a task.
func canonicalDiscover(p *parts) string {
	parts := map[string]any{}
	for name, n := range map[string]*decode.Node{
		"discover": p.discover, "template": p.template, "defaults": p.defaults,
	} {
		if n != nil {
			parts[name] = n.Written()
		}
	}
	return jsonText(parts)
}

// discoverFields are what is printed. A template shows what depends on what is found as it is written.
func discoverFields(d *settings.Discover, from *groupSource, use kind.Use) decode.Fields {
	if d.Lister == nil || from.template == nil {
		return nil
	}
	asks := from.discover.over("", decode.Pairs(
		d.Lister.Kind(), d.Lister.Print(), "interval", d.Interval, "grace", d.Grace, "limit", d.Limit,
	))
	sample, err := from.template.task(discover.Found{Name: "x", Partition: "0"})
	if err != nil {
		return decode.Pairs("discover", asks)
	}
	return decode.Pairs("discover", asks, "template", from.template.fields(sample, use))
}

// fields are what is printed of a template, of which sample is one task.
func (t *template) fields(sample tasks.Task, use kind.Use) decode.Fields {
	use.Ticks = sample.Ticks()
	shown := slices.DeleteFunc(fieldsOf(sample, use), func(f decode.Field) bool { return f.Name == "name" })
	if w := (&listReader{fieldReader: fieldReader{opts: t.opts}}).taskWritten(t.node); w != nil {
		shown = w.over("", shown)
	}
	return asWritten(shown, t.node)
}

// asWritten is fields with what was not settled when the file was read as it is written.
func asWritten(fields decode.Fields, n *decode.Node) decode.Fields {
	shown := slices.Clone(fields)
	for i, f := range shown {
		from := n.Get(f.Name)
		if from == nil || !variesByName(&decode.Node{Entries: []decode.Entry{{Value: from}}}) {
			continue
		}
		if below, ok := f.Value.(decode.Fields); ok && from.Shape == decode.Mapping {
			shown[i].Value = asWritten(below, from)
			continue
		}
		shown[i].Value = plainly(f.Name, from)
	}
	return shown
}

// plainly is a node as it is written below a name, to be printed, secrets hidden.
func plainly(name string, n *decode.Node) any {
	switch n.Shape {
	case decode.Mapping:
		m := map[string]any{}
		for _, e := range n.Entries {
			m[e.Name] = plainly(e.Name, e.Value)
		}
		fields := decode.Fields{}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fields = append(fields, decode.Field{Name: name, Value: m[name]})
		}
		return fields
	case decode.List:
		items := make([]string, len(n.Items))
		for i, item := range n.Items {
			items[i] = hidden(name, item.Raw)
		}
		return decode.WithoutSecretsOf(items)
	default:
		return hidden(name, n.Raw)
	}
}

// template makes tasks of what is found, as a [settings.Template].
type template struct {
	opts     Options
	node     *decode.Node // of a task without a name; not changed once the configuration is loaded
	group    string
	settings *settings.Settings
	each     bool     // a field that is read now depends on what is found
	files    []string // the fields that name files by what is found
}

// Tasks implements [settings.Template].
func (t *template) Tasks(found []discover.Found) (made []tasks.Task, refused error) {
	made = make([]tasks.Task, 0, len(found))
	var shared *tasks.Task
	left := 0
	for _, f := range found {
		err := t.checkFiles(f)
		if err == nil && (shared == nil || t.each) {
			var one tasks.Task
			if one, err = t.task(f); err == nil {
				shared = &one
			}
		}
		if err != nil {
			if left++; refused == nil {
				refused = fmt.Errorf("no task can be made for %q: %w", f.String(), err)
			}
			continue
		}
		made = append(made, t.named(*shared, f))
	}
	if left > 1 {
		refused = fmt.Errorf("%w (and for %d more)", refused, left-1)
	}
	return made, refused
}

// task makes the task of what was found.
func (t *template) task(f discover.Found) (tasks.Task, error) {
	if err := t.checkFiles(f); err != nil {
		return tasks.Task{}, err
	}
	node := t.node.Clone() // what is wrong for one name is not for the next
	l := &listReader{fieldReader: fieldReader{&decode.Reader{}, t.opts}}
	made := t.build(l, node, f)
	if len(l.Errs) > 0 {
		return tasks.Task{}, l.Errs[0]
	}
	return t.named(made, f), nil
}

// build reads the fields, which count for any name if none of them varies.
func (t *template) build(l *listReader, node *decode.Node, f discover.Found) tasks.Task {
	of := valuesOf(t.group, discover.TaskName(f.Name, f.Partition), "", t.settings)
	of.Discovered, of.Partition = f.Name, f.Partition
	l.Scope = l.scope(of)
	l.AtStart = l.atStart(false, ticks(node), true)
	return l.task(node, t.settings)
}

// named is a task of the template for one that was found. Its labels and its weight win over the template's.
func (t *template) named(task tasks.Task, f discover.Found) tasks.Task {
	task.Group, task.Name = t.group, discover.TaskName(f.Name, f.Partition)
	task.Discovered = tasks.Discovered{Name: f.Name, Partition: f.Partition}
	if len(f.Labels) > 0 {
		labels := maps.Clone(f.Labels)
		for name, value := range task.Labels {
			if _, own := labels[name]; !own {
				labels[name] = value
			}
		}
		task.Labels = labels
	}
	if f.Weight > 0 {
		task.Weight = f.Weight
	}
	return task
}
