package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Renewal replaces what stands in $(…) of a URI again, since files that it names may be renewed. Nil: it names none.
func Renewal(written string, env decode.Lookup) func() (string, error) {
	if !strings.Contains(written, "$(file:") {
		return nil
	}
	return func() (string, error) { return variables.Expand(written, env) }
}

// SecretVariables lists the variables that hold the secrets of a store, in order: those from which the text of its URI,
// as written, takes a secret or the URI itself, and those that its driver reads on its own. What the URI shows without
// its secrets, such as $(HOME) in a path, is not among them.
func SecretVariables(uri string, lookup decode.Lookup) []string {
	t := uriText(files.ReplaceAllString(uri, "file"))
	expanded := t.expand(lookup)
	all := driver.SecretVariables(store.Config{URI: expanded})
	for _, name := range t.names() {
		if value, ok := lookup(name); ok && t.hides(name, value, expanded, lookup) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// files are references to files: what they hold is in no variable.
var files = regexp.MustCompile(`\$\(file:[^)]*\)`)

// uriText is the text of a store's URI with references to variables.
type uriText string

func (t uriText) expand(lookup decode.Lookup) string {
	text, _ := variables.Expand(string(t), lookup)
	return text
}

// names are the variables that occur in it.
func (t uriText) names() []string {
	var names []string
	t.expand(func(name string) (string, bool) {
		names = append(names, name)
		return "", true
	})
	return names
}

// hides reports whether the URI is hidden, at least in part, where the variable stands in it. The value alone does not
// tell, since a password may be the name of the user as well; nor does its place, since the value may be USER:PASSWORD.
func (t uriText) hides(name, value, expanded string, lookup decode.Lookup) bool {
	d, err := driver.Lookup(expanded)
	if err != nil || strings.HasPrefix(string(t), "$("+name+")") || strings.HasPrefix(string(t), "$("+name+":-") {
		return true
	}
	if !strings.Contains(d.Redact(expanded), value) {
		return true
	}
	mark := 10007 // a port, too
	for strings.Contains(expanded, strconv.Itoa(mark)) {
		mark++
	}
	marked := t.expand(func(other string) (string, bool) {
		if other == name {
			return strconv.Itoa(mark), true
		}
		return lookup(other)
	})
	return !strings.Contains(d.Redact(marked), strconv.Itoa(mark))
}
