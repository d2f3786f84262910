package config

import (
	"regexp"
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
)

// expandAll replaces the variables of a file, once, before it is checked. Two things are left as they are written. They
// are texts of what runs, which are replaced at each start, and values in which a task's own variables occur. Such
// values depend on the task.
func (l fieldReader) expandAll(root *decode.Node) {
	for _, e := range root.Entries {
		if e.Name != "groups" {
			e.Value.Scalars(func(n *decode.Node) {
				l.checkDollar(n, false)
				l.Replace(n, l.opts.Env)
			})
			continue
		}
		e.Value.Scalars(func(n *decode.Node) {
			task, runner := l.within(n)
			l.checkDollar(n, runner)
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

var shellVariable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// checkDollar refuses ${NAME}, which nothing replaces: what was meant is $(NAME). Within a text of what runs it may
// be for a shell.
func (l fieldReader) checkDollar(n *decode.Node, runner bool) {
	found := shellVariable.FindStringSubmatch(n.Raw)
	switch {
	case found == nil, runner && found[0] != n.Raw:
	case runner:
		l.Add(n, "is %q, which nothing replaces: write $(%s), or ${%s:-} where a shell is to replace it", n.Raw,
			found[1], found[1])
	default:
		l.Add(n, "holds %q, which nothing replaces: write $(%s)", found[0], found[1])
	}
}

// within says whether n stands in a task, or the defaults or the template of tasks, and whether it is of what runs, or
// of what discover asks: texts of these are replaced later.
func (l fieldReader) within(n *decode.Node) (task, runner bool) {
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
	if path[1] == "discover" {
		return false, len(path) > 3 && slices.Contains(l.opts.Listers.Names(), path[2])
	}
	task = path[1] == "tasks" || path[1] == "defaults" || path[1] == "template"
	return task, task && len(path) > 3 && slices.Contains(l.opts.Kinds.Names(), path[2])
}
