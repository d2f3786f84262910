package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

const (
	verbsBegin = "<!-- verbs: begin -->\n"
	verbsEnd   = "<!-- verbs: end -->\n"
)

// The page of the API says of each verb its paths, its role, and the fields of the body that it takes.
func TestVerbsOfTheAPI(t *testing.T) {
	const file = "http-api.md"
	page := read(t, file)
	before, rest, _ := strings.Cut(page, verbsBegin)
	_, after, marked := strings.Cut(rest, verbsEnd)
	if !marked {
		t.Fatalf("%s has no lines %s and %s", file, verbsBegin, verbsEnd)
	}
	want := before + verbsBegin + verbsTable() + verbsEnd + after
	for field, takes := range map[string]func(verbs.Verb) bool{
		"instance": func(v verbs.Verb) bool { return v.Target != verbs.NoTarget },
		"strict":   func(v verbs.Verb) bool { return v.Target == verbs.ToPlace },
		"for":      verbs.Verb.Lasts,
	} {
		cell := regexp.MustCompile("(?m)^\\| `" + field + "` \\| (`[a-z]+`(?:, )?)+ \\|")
		want = cell.ReplaceAllLiteralString(want, "| `"+field+"` | "+spans(verbs.Names(takes))+" |")
	}
	switch {
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	case page != want:
		t.Errorf("%s: what it says of verbs differs from them: run go test ./docs -run Verbs -update", file)
	}
	_, kinds, _ := strings.Cut(page, "\n| kind | of | holds |")
	for _, v := range verbs.All() {
		if row := regexp.MustCompile("(?m)^\\| [^|]*`" + string(v.Kind) + "`[^|]*\\|"); !row.MatchString(kinds) {
			t.Errorf("%s does not say how long a %s holds", file, v.Kind)
		}
	}
}

// verbsTable has the paths that take a change, and the role that each verb needs.
func verbsTable() string {
	var b strings.Builder
	b.WriteString("| path | verbs | role |\n|---|---|---|\n")
	var paths []string
	of := map[string]map[verbs.Role][]api.Verb{}
	for _, route := range verbs.Routes() {
		path := "`" + strings.TrimSuffix(route.Path, string(route.Name)) + "VERB`"
		if route.Many {
			path += ", for many tasks"
		}
		if of[path] == nil {
			paths, of[path] = append(paths, path), map[verbs.Role][]api.Verb{}
		}
		of[path][route.Role] = append(of[path][route.Role], route.Name)
	}
	for _, path := range paths {
		cell := path + " "
		for role := verbs.Read; role <= verbs.Admin; role++ {
			if names := of[path][role]; len(names) > 0 {
				fmt.Fprintf(&b, "| %s| %s | %s |\n", cell, spans(names), role)
				cell = ""
			}
		}
	}
	return b.String()
}

func spans(names []api.Verb) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = "`" + string(name) + "`"
	}
	return strings.Join(words, ", ")
}
