package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The engine of an elector is given events and the time, and says what is to be done. A goroutine, a lock, a context, a
// clock or a socket in it would be one that the simulation does not drive.
func TestTheEngineIsPure(t *testing.T) {
	files, err := filepath.Glob("../../pkg/elect/internal/engine/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("files of the engine: %v, %v", files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range impurities(t, file, source) {
			t.Error(found)
		}
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`import "time"; var d time.Duration`:                      0,
		`import "context"`:                                        1,
		`import ("sync"; "sync/atomic"; "os"; "net"; "net/http")`: 5,
		`import "` + module + `internal/clock"`:                   1,
		`import "time"; var now = time.Now`:                       1,
		`import "time"; func f() { go f(); time.Sleep(0) }`:       2,
		`func f(c chan int) { select { case <-c: } }`:             1,
	} {
		if got := impurities(t, "engine.go", []byte("package engine; "+source)); len(got) != want {
			t.Errorf("%s: %d: %q", source, want, got)
		}
	}
}

// impurities are the places of a file that import, read or start what the engine must not.
func impurities(t *testing.T, name string, source []byte) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	note := func(at token.Pos, what string) { found = append(found, set.Position(at).String()+": "+what) }
	for _, spec := range file.Imports {
		name := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module)
		first, _, _ := strings.Cut(name, "/")
		if slices.Contains([]string{"context", "net", "os", "sync", "runtime"}, first) ||
			slices.Contains([]string{"internal/clock", "pkg/elect/internal/loop"}, name) {
			note(spec.Pos(), "imports "+name)
		}
	}
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			note(n.Pos(), "starts a goroutine")
		case *ast.SelectStmt:
			note(n.Pos(), "waits")
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
				note(n.Pos(), "uses time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}
