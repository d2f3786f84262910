package config

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// expandAll replaces the variables of a file, once, before it is checked. Left as they are written: texts of what runs, which
// are replaced at each start, and values in which a task's own variables occur, which depend on the task.
func (l *loader) expandAll(root *decode.Node) {
	for _, e := range root.Entries {
		if e.Name != "groups" {
			e.Value.Scalars(func(n *decode.Node) { l.Replace(n, l.opts.Env) })
			continue
		}
		e.Value.Scalars(func(n *decode.Node) {
			task, runner := l.within(n)
			switch {
			case runner && n.Rule != nil && n.Rule.AnyText():
				n.Settled = true
			case task && n.UsesOwn():
			default:
				l.Replace(n, l.opts.Env)
			}
		})
	}
}

// within says whether n stands in a task or the defaults of tasks, and there in a mapping that says what runs.
func (l *loader) within(n *decode.Node) (task, runner bool) {
	var path []string
	for at := n; at.Parent != nil; at = at.Parent {
		if at.Index < 0 {
			path = append(path, at.Key)
		}
	}
	// The path is from n up: …, exec, tasks, groups.
	slices.Reverse(path)
	if len(path) < 3 || path[0] != "groups" {
		return false, false
	}
	task = path[1] == "tasks" || path[1] == "defaults"
	return task, task && len(path) > 3 && slices.Contains(l.opts.Kinds.Names(), path[2])
}
