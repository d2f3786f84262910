package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kinds"
)

const root = "../.."

// place is where something has to be said of each source.
type place struct {
	file string // NAME stands for the source's
	says string // a regular expression; NAME as above
}

// places are those that nothing else would miss.
var places = []place{
	{"docs/sources/NAME.md", `(?m)^# `},
	{"docs/subscriptions.md", `sources/NAME\.md`},
	{"config/topics-NAME.yaml", `(?m)^ +NAME: `},
	{"test/e2e/brokers/kinds_test.go", `name: +"NAME"`},
	{"internal/subscribe/NAME/*_test.go", `subscribetest\.Run\(`},
}

// TestNoSourceIsForgotten: a package beside package subscribe that reads sources is registered, documented, shown by a
// sample, and tested as all others are.
func TestNoSourceIsForgotten(t *testing.T) {
	sources := packagesOf(t, "Source")
	if len(sources) == 0 {
		t.Fatal("no package reads sources: the test looks in the wrong place")
	}
	registered := map[string]string{} // packages, by the name of their kind
	for _, kind := range kinds.Sources() {
		registered[kind.Name()] = packageOf(kind.Read(nil, new(decode.Reader)))
	}
	for _, name := range sources {
		if registered[name] != name {
			t.Errorf("internal/subscribe/%s: Sources in internal/kinds has no kind %s of this package", name, name)
		}
		for _, p := range places {
			for _, wrong := range p.missing(t, root, name) {
				t.Errorf("internal/subscribe/%s: %s", name, wrong)
			}
		}
	}
	for name, in := range registered {
		if !slices.Contains(sources, in) {
			t.Errorf("kind %s is of package %s, which is not in internal/subscribe", name, in)
		}
	}
}

// TestNoSinkIsForgotten: a package that reads sinks is registered.
func TestNoSinkIsForgotten(t *testing.T) {
	var registered []string
	for _, kind := range kinds.Sinks() {
		registered = append(registered, packageOf(kind.Read(nil, new(decode.Reader))))
	}
	for _, name := range packagesOf(t, "Sink") {
		if !slices.Contains(registered, name) {
			t.Errorf("internal/subscribe/%s: Sinks in internal/kinds has no kind of this package", name)
		}
	}
}

// packageOf returns the name of the package that has the type of a value.
func packageOf(value any) string { return path.Base(reflect.TypeOf(value).PkgPath()) }

// packagesOf returns the packages in internal/subscribe that make a kind of subscribe.Source, or of Sink.
func packagesOf(t *testing.T, result string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "internal/subscribe/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if strings.HasSuffix(file, "_test.go") || slices.Contains(names, name) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if makesKind(parsed, result) {
			names = append(names, name)
		}
	}
	return names
}

// makesKind reports whether a file has a literal of the type decode.Kind[subscribe.RESULT] or subscribe.RESULTKind, or
// calls field.Kind with a function that returns a subscribe.RESULT.
func makesKind(file *ast.File, result string) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			of := ""
			if n.Type != nil {
				of = types.ExprString(n.Type)
			}
			found = found || of == "decode.Kind[subscribe."+result+"]" || of == "subscribe."+result+"Kind"
		case *ast.CallExpr:
			if types.ExprString(n.Fun) == "field.Kind" {
				made, _ := n.Args[len(n.Args)-1].(*ast.FuncLit)
				found = found || made != nil && types.ExprString(made.Type.Results.List[0].Type) == "subscribe."+result
			}
		}
		return !found
	})
	return found
}

// missing says what is not there.
func (p place) missing(t *testing.T, root, name string) []string {
	t.Helper()
	file := strings.ReplaceAll(p.file, "NAME", name)
	files, err := filepath.Glob(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return []string{"there is no " + file}
	}
	says := regexp.MustCompile(strings.ReplaceAll(p.says, "NAME", regexp.QuoteMeta(name)))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if says.Match(text) {
			return nil
		}
	}
	return []string{file + " has nothing like " + says.String()}
}

// TestPlacesAreSeen shows that the test above sees each place that is missing, or says nothing of the source.
func TestPlacesAreSeen(t *testing.T) {
	for _, p := range places {
		t.Run(p.file, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(p.file, "NAME", "tape"), "*", "all"))
			if p.missing(t, dir, "tape") == nil {
				t.Error("a file that is not there is not missed")
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
				t.Fatal(err)
			}
			if p.missing(t, dir, "tape") == nil {
				t.Error("a file that does not name the source passes")
			}
		})
	}
}
