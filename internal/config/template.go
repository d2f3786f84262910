package config

import (
	"fmt"
	"maps"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// Template makes tasks of what is found. It may be used from many goroutines.
type Template struct {
	opts     Options
	node     *decode.Node // of a task without a name; not changed once the configuration is loaded
	group    string
	settings *Settings
	each     bool // a field that is read now depends on what is found
}

// Tasks makes a task of each that was found, in that order. Those of which none can be made are left out; refused says
// why, the first one in words, and how many they are.
func (t *Template) Tasks(found []discover.Found) (made []tasks.Task, refused error) {
	made = make([]tasks.Task, 0, len(found))
	var shared *tasks.Task
	left := 0
	for _, f := range found {
		if shared == nil || t.each {
			one, err := t.Task(f)
			if err != nil {
				if left++; refused == nil {
					refused = fmt.Errorf("no task can be made for %q: %w", f.String(), err)
				}
				continue
			}
			shared = &one
		}
		made = append(made, t.named(*shared, f))
	}
	if left > 1 {
		refused = fmt.Errorf("%w (and for %d more)", refused, left-1)
	}
	return made, refused
}

// Task makes the task of what was found.
func (t *Template) Task(f discover.Found) (tasks.Task, error) {
	node := t.node.Clone() // what is wrong for one name is not for the next
	l := &listReader{fieldReader: fieldReader{&decode.Reader{}, t.opts}}
	made := t.build(l, node, f)
	if len(l.Errs) > 0 {
		return tasks.Task{}, l.Errs[0]
	}
	return t.named(made, f), nil
}

// build reads the fields, which count for any name if none of them varies.
func (t *Template) build(l *listReader, node *decode.Node, f discover.Found) tasks.Task {
	own := l.own(discover.TaskName(f.Name, f.Partition), "", t.group, t.settings)
	l.Scope = func(name string) (string, bool) {
		switch name {
		case "DISCOVERED_NAME":
			return f.Name, true
		case "DISCOVERED_PARTITION":
			return f.Partition, true
		default:
			return own(name)
		}
	}
	l.AtStart = l.atStart(false, ticks(node), true)
	return l.task(node, t.settings)
}

// named is a task of the template for one that was found. Its labels and its weight win over the template's.
func (t *Template) named(task tasks.Task, f discover.Found) tasks.Task {
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
