// Package variables replaces $(NAME) and $(file:/path) in texts, and lists the variables of a task's own.
package variables

import (
	"fmt"
	"maps"
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

// Clipped cuts a text that is too long for an error.
func Clipped(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

// Set is an environment by name.
type Set map[string]string

// Parse reads NAME=value lines, as of [os.Environ]. Later ones win.
func Parse(environ []string) Set {
	env := make(Set, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

// List is NAME=value in order of names, so that equal environments look equal.
func (v Set) List() []string {
	list := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		list = append(list, name+"="+v[name])
	}
	return list
}

// LookupIn finds a variable in the first environment that has it.
func LookupIn(envs ...Set) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, env := range envs {
			if value, ok := env[name]; ok {
				return value, true
			}
		}
		return "", false
	}
}

// Withheld reports whether a variable of the replica's environment is kept from its tasks. These are what opens the
// store or the admin API, the socket by which the replica shows its own supervisor that it is ready, and those that also
// names.
func Withheld(name string, also ...string) bool {
	return name == "SHARDCTL_STORE_URI" || strings.HasPrefix(name, "SHARDCTL_ADMIN_") || name == "NOTIFY_SOCKET" ||
		slices.Contains(also, name)
}
