package decode

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// maxExpandedFile bounds what $(file:…) reads: a secret or a certificate, not a data set.
const maxExpandedFile = 1 << 20

// Expand replaces what stands in $(…) once, from left to right; what comes in is not looked at again.
//
//	$(NAME)        the value that lookup gives; an error when it gives none
//	$(NAME:-text)  the same, with text up to the next ")" where lookup gives none
//	$(file:/path)  the file's content less its trailing line ends, at most 1 MiB, read now
//	$$(            a plain $(
//
// NAME is [A-Za-z_][A-Za-z0-9_]*. One of these forms without its ")" is an error. Every other "$" stays as it is.
// Errors name the variable or file, never a value. Expand may be called concurrently if lookup may.
func Expand(text string, lookup func(name string) (string, bool)) (string, error) {
	if !strings.Contains(text, "$(") {
		return text, nil
	}
	var out strings.Builder
	for text != "" {
		i := strings.Index(text, "$(")
		if i < 0 {
			break
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1])
			out.WriteString("$(")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		value, rest, err := expandOne(text[i:], lookup)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = rest
	}
	out.WriteString(text)
	return out.String(), nil
}

// expandOne replaces the reference that text, which begins with "$(", begins with, and returns what follows it. What
// is no reference gives its "$(" back.
func expandOne(text string, lookup func(string) (string, bool)) (value, rest string, err error) {
	inner, rest, closed := strings.Cut(text[2:], ")")
	name := leadingName(inner)
	fallback, hasFallback := strings.CutPrefix(inner[len(name):], ":-")
	path, isFile := strings.CutPrefix(inner, "file:")
	switch {
	case !closed && (name == inner && name != "" || hasFallback && name != "" || isFile):
		return "", "", fmt.Errorf("%s has no ) after it, write $$( for a plain $(", Clipped(text))
	case !closed || name == "":
		return "$(", text[2:], nil
	case hasFallback, len(name) == len(inner):
		if value, ok := lookup(name); ok {
			return value, rest, nil
		}
		if hasFallback {
			return fallback, rest, nil
		}
		return "", "", fmt.Errorf("$(%s) is not set and has no default", name)
	case isFile && path != "":
		value, err := ReadFile(path)
		return value, rest, err
	default:
		return "$(", text[2:], nil
	}
}

// leadingName is the longest variable name that text begins with.
func leadingName(text string) string {
	for i, c := range []byte(text) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return text[:i]
		}
	}
	return text
}

// ReadFile reads what $(file:PATH) stands for: a file's content less its trailing line ends, at most 1 MiB.
func ReadFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("$(file:%s): %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("$(file:%s): is not a regular file", path)
	}
	if info.Size() > maxExpandedFile {
		return "", fmt.Errorf("$(file:%s): %d bytes, at most %d are read", path, info.Size(), maxExpandedFile)
	}
	//nolint:gosec // G304: reading the file that the configuration names is what this is for
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("$(file:%s): %w", path, err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

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

// Uses says whether the variable occurs in n.
func (n *Node) Uses(variable string) bool {
	uses := false
	_, _ = Expand(withoutFiles(n.Raw), func(name string) (string, bool) {
		uses = uses || name == variable
		return "", true
	})
	return uses
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
		p.Add(n, "$(%s) is set only for slots, and tasks with braces in their name", name)
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
