package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// template makes tasks of what is found, as a [settings.Template].
type template struct {
	opts     Options
	node     *decode.Node // of a task without a name; not changed once the configuration is loaded
	group    string
	settings *settings.Settings
	each     bool     // a field that is read now depends on what is found
	files    []string // the fields that name files by what is found
}

func newTemplate(l taskReader, group string, node *decode.Node) *template {
	return &template{opts: l.opts, node: node, group: group, settings: l.settings}
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
	l := taskReader{fieldReader{&decode.Reader{}, t.opts}, t.settings}
	made := t.build(l, node, f)
	if len(l.Errs) > 0 {
		return tasks.Task{}, l.Errs[0]
	}
	return t.named(made, f), nil
}

// build reads the fields, which count for any name if none of them varies.
func (t *template) build(l taskReader, node *decode.Node, f discover.Found) tasks.Task {
	of := l.valuesOf(t.group, discover.TaskName(f.Name, f.Partition), "")
	of.Discovered, of.Partition = f.Name, f.Partition
	l.Scope = l.scope(of)
	l.AtStart = l.atStart(false, ticks(node), true)
	return l.task(node)
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

// fields are what is printed of a template, of which sample is one task.
func (t *template) fields(sample tasks.Task, use kind.Use) decode.Fields {
	use.Ticks = sample.Ticks()
	shown := slices.DeleteFunc(fieldsOf(sample, use), func(f decode.Field) bool { return f.Name == "name" })
	if w := taskWritten(t.opts.Kinds, t.node); w != nil {
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

// namesFile says whether a scalar of a task names a file, a directory or a program: fields called …File, dir and path,
// and the first word of a command.
func namesFile(n *decode.Node) bool {
	if n.Parent != nil && n.Parent.Shape == decode.List {
		return n.Parent.Key == "command" && n.Index == 0
	}
	return strings.HasSuffix(n.Key, "File") || n.Key == "dir" || n.Key == "path"
}

// discoveredFiles are the fields of a template that name a file by a name that was discovered.
func discoveredFiles(template *decode.Node) (fields []string) {
	template.Scalars(func(n *decode.Node) {
		if namesFile(n) && n.Uses(variables.DiscoveredName) {
			fields = append(fields, n.Field())
		}
	})
	slices.Sort(fields)
	return fields
}

// checkFiles refuses a name that would lead a field of the template to another directory than the one that is written:
// whoever names a topic or a queue could choose any file.
func (t *template) checkFiles(f discover.Found) error {
	if len(t.files) == 0 || f.Name != "." && !strings.Contains(f.Name, "/") && !strings.Contains(f.Name, "..") {
		return nil
	}
	return fmt.Errorf("%s: names a file by $(DISCOVERED_NAME), and a name with / or .. could lead to any: "+
		"use $(SHARDCTL_TASK), in which these are escaped", t.files[0])
}

// groupSource is the source of one group.
type groupSource struct {
	written  written   // of the group itself
	tasks    []written // of each task but slots; nil where nothing came from outside
	discover written
	template *template // of discover; nil: there is none
	slots    *template // nil: there are none
}
