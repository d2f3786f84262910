package decode

import (
	"strings"

	"github.com/shardctl/shardctl/internal/variables"
)

// Outside reports whether what is not in the file occurs in a scalar: a variable that is not one of a task's own, or
// another file.
func (n *Node) Outside() bool {
	return strings.Contains(n.Raw, "$(file:") || n.names(func(name string) bool { return !variables.IsOwn(name) })
}

// Uses reports whether the variable occurs in n.
func (n *Node) Uses(variable string) bool {
	return n.names(func(name string) bool { return name == variable })
}

// UsesOwn reports whether one of a task's own variables occurs in n.
func (n *Node) UsesOwn() bool { return n.names(variables.IsOwn) }

// names reports whether a variable for which is returns true occurs in n. It reads no files.
func (n *Node) names(is func(name string) bool) bool {
	found := false
	_, _ = variables.Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
		found = found || is(name)
		return "", true
	})
	return found
}

// withoutFiles makes references to files plain text, so that nothing is read.
func withoutFiles(text string) string { return strings.ReplaceAll(text, "$(file:", "$$(file:") }

// Replace replaces the variables of one scalar.
func (p *Problems) Replace(n *Node, env Lookup) {
	n.Settled = true
	if !n.HasVariables() || !p.checkSet(n, env) {
		return
	}
	text, err := variables.Expand(n.Raw, env)
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
		_, err := variables.Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
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
	switch own, is := variables.OwnOf(name); {
	case own.Of != "":
		p.Add(n, "$(%s) is set only for %s", name, own.Of)
	case own.AtStart:
		p.Add(n, "$(%s) is known only when the task starts: only texts of what runs can use it", name)
	case is:
		p.Add(n, "$(%s) is a task's own variable: only a task's fields but its name can use it", name)
	default:
		p.Add(n, "$(%s) is not set, set it or write a default: $(%s:-TEXT)", name, name)
	}
}
