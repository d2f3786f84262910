package config

import (
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Lookup finds a variable of the environment, as [os.LookupEnv] does.
type Lookup = func(name string) (value string, ok bool)

// The task's own variables: those known when its fields are read, and those that only a start knows.
var (
	knownAtLoad  = []string{"SHARDCTL_TASK", "SHARDCTL_GROUP", "SHARDCTL_KEY", "SHARDCTL_INSTANCE", "SHARDCTL_INDEX"}
	knownAtStart = []string{"SHARDCTL_FENCING_TOKEN", "SHARDCTL_SESSION", "SHARDCTL_SCHEDULED_AT"}
)

func isOwn(name string) bool {
	return slices.Contains(knownAtLoad, name) || slices.Contains(knownAtStart, name)
}

// expandAll replaces the variables of a file, once, before it is checked. Left as they are written: texts of exec and http, which
// are replaced at each start, and values in which a task's own variables occur, which depend on the task.
func expandAll(root *node, env Lookup, p *problems) {
	for _, e := range root.entries {
		if e.name != "groups" {
			e.value.scalars(func(n *node) { expandOne(n, env, p) })
			continue
		}
		e.value.scalars(func(n *node) {
			task, runner := n.within()
			switch {
			case runner && n.anyText():
				n.settled = true
			case task && n.usesOwn():
			default:
				expandOne(n, env, p)
			}
		})
	}
}

// within says whether n stands in a task or the defaults of tasks, and there in what runs it.
func (n *node) within() (task, runner bool) {
	var path []string
	for at := n; at.parent != nil; at = at.parent {
		if at.index < 0 {
			path = append(path, at.key)
		}
	}
	// The path is from n up: …, exec, tasks, groups.
	slices.Reverse(path)
	if len(path) < 3 || path[0] != "groups" {
		return false, false
	}
	task = path[1] == "tasks" || path[1] == "defaults"
	return task, task && (path[2] == "exec" || path[2] == "http")
}

// usesOwn says whether one of a task's own variables occurs in n.
func (n *node) usesOwn() bool {
	uses := false
	_, _ = tasks.Expand(withoutFiles(n.raw), func(name string) (string, bool) {
		uses = uses || isOwn(name)
		return "", true
	})
	return uses
}

// withoutFiles makes references to files plain text, so that nothing is read.
func withoutFiles(text string) string { return strings.ReplaceAll(text, "$(file:", "$$(file:") }

// expandOne replaces the variables of one value by those of the environment.
func expandOne(n *node, env Lookup, p *problems) {
	n.settled = true
	if !strings.Contains(n.raw, "$(") || !checkSet(n, env, p) {
		return
	}
	text, err := tasks.Expand(n.raw, env)
	if err != nil {
		p.add(n, "%v", err)
		return
	}
	n.text = text
	if text == "" && variableOnly.MatchString(n.raw) && !n.free() {
		n.kind = void
	}
}

// checkSet tells about every variable of n that is not set and has no default. It reads no files.
func checkSet(n *node, lookup Lookup, p *problems) bool {
	told := map[string]bool{}
	for {
		var last string
		_, err := tasks.Expand(withoutFiles(n.raw), func(name string) (string, bool) {
			last = name
			if told[name] {
				return "", true
			}
			return lookup(name)
		})
		if err == nil {
			return len(told) == 0
		}
		told[last] = true
		switch {
		case last == "SHARDCTL_INDEX":
			p.add(n, "$(%s) is set only for tasks with braces in their name", last)
		case last == "SHARDCTL_SCHEDULED_AT":
			p.add(n, "$(%s) is set only for tasks with schedule or every", last)
		case slices.Contains(knownAtStart, last):
			p.add(n, "$(%s) is known only when the task starts: only texts of exec and http can use it", last)
		case isOwn(last):
			p.add(n, "$(%s) is a task's own variable: only a task's fields but its name can use it", last)
		default:
			p.add(n, "$(%s) is not set, set it or write a default: $(%s:-TEXT)", last, last)
		}
	}
}
