package decode

import (
	"slices"
	"strings"
)

// The task's own variables: those known when its fields are read, and those that only a start knows.
var (
	knownAtLoad  = []string{"SHARDCTL_TASK", "SHARDCTL_GROUP", "SHARDCTL_KEY", "SHARDCTL_INSTANCE", "SHARDCTL_INDEX"}
	knownAtStart = []string{"SHARDCTL_FENCING_TOKEN", "SHARDCTL_SESSION", "SHARDCTL_SCHEDULED_AT"}
	discovered   = []string{"DISCOVERED_NAME", "DISCOVERED_PARTITION"} // known at load, of a task that was discovered
)

// IsDiscovered says whether a variable says what a task was discovered by.
func IsDiscovered(name string) bool { return slices.Contains(discovered, name) }

// IsOwn says whether a variable is one of a task's own.
func IsOwn(name string) bool {
	return slices.Contains(knownAtLoad, name) || slices.Contains(knownAtStart, name) || IsDiscovered(name)
}

// Outside says whether what is not in the file occurs in a scalar. That is a variable that is not one of a task's own,
// or another file.
func (n *Node) Outside() bool {
	outside := strings.Contains(n.Raw, "$(file:")
	_, _ = Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
		outside = outside || !IsOwn(name)
		return "", true
	})
	return outside
}

// UsesOwn says whether one of a task's own variables occurs in n.
func (n *Node) UsesOwn() bool {
	uses := false
	_, _ = Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
		uses = uses || IsOwn(name)
		return "", true
	})
	return uses
}

// withoutFiles makes references to files plain text, so that nothing is read.
func withoutFiles(text string) string { return strings.ReplaceAll(text, "$(file:", "$$(file:") }

// Replace replaces the variables of one scalar.
func (p *Problems) Replace(n *Node, env Lookup) {
	n.Settled = true
	if !n.HasVariables() || !p.checkSet(n, env) {
		return
	}
	text, err := Expand(n.Raw, env)
	if err != nil {
		p.Add(n, "%v", err)
		return
	}
	n.Text = text
	if text == "" && n.VariableOnly() && (n.Rule == nil || !n.Rule.Free()) {
		n.Shape = Void
	}
}

// checkSet says which variables of n are not set and have no default. It reads no files.
func (p *Problems) checkSet(n *Node, lookup Lookup) bool {
	said := map[string]bool{}
	for {
		last := ""
		_, err := Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
			last = name
			if said[name] {
				return "", true
			}
			return lookup(name)
		})
		switch {
		case err == nil:
			return len(said) == 0
		case last == "" || said[last]: // a reference that is not closed
			p.Add(n, "%v", err)
			return false
		}
		said[last] = true
		p.addUnset(n, last)
	}
}

func (p *Problems) addUnset(n *Node, name string) {
	switch {
	case name == "SHARDCTL_INDEX":
		p.Add(n, "$(%s) is set only for tasks with braces in their name", name)
	case name == "SHARDCTL_SCHEDULED_AT":
		p.Add(n, "$(%s) is set only for tasks with schedule or every", name)
	case IsDiscovered(name):
		p.Add(n, "$(%s) is set only for tasks that are discovered: only a group's template can use it", name)
	case slices.Contains(knownAtStart, name):
		p.Add(n, "$(%s) is known only when the task starts: only texts of what runs can use it", name)
	case IsOwn(name):
		p.Add(n, "$(%s) is a task's own variable: only a task's fields but its name can use it", name)
	default:
		p.Add(n, "$(%s) is not set, set it or write a default: $(%s:-TEXT)", name, name)
	}
}
