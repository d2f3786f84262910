package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/pageblock"
)

// Every block of Go stands in a file that is compiled with this module, so that it cannot show what is not there. A
// program that a page shows whole is one of the examples.
func TestGoBlocksAreCompiled(t *testing.T) {
	programs := ""
	for _, path := range goFiles(t, "examples") {
		programs += read(t, path)
	}
	seen := 0
	for _, page := range pages(t) {
		if strings.Contains(page, "/adr/") {
			continue // these say what was, not what is
		}
		for _, b := range pageblock.Blocks(page, read(t, page)) {
			if b.Language != "go" {
				continue
			}
			seen++
			path, same := strings.CutPrefix(b.Directive, "same: ")
			switch {
			case strings.HasPrefix(b.Directive, "program: "), same && path == "README.md":
				_, program, _ := strings.Cut(b.Text, "package main\n")
				if program == "" || !strings.Contains(programs, program) {
					t.Errorf("%s:%d: the program is none of examples/", b.Page, b.Line)
				}
			case !same:
				t.Errorf("%s:%d: a block of Go without <!-- same: FILE.go -->: put it into a file that is compiled, such as "+
					"docs/snippets_test.go", b.Page, b.Line)
			case !compiled(t, path):
				t.Errorf("%s:%d: %s is not compiled with this module", b.Page, b.Line, path)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d blocks of Go were seen", seen)
	}
}

// compiled reports whether `go vet ./...` compiles a file: it is Go, of this module, and without a constraint.
func compiled(t *testing.T, path string) bool {
	t.Helper()
	if filepath.Ext(path) != ".go" || strings.Contains(read(t, filepath.Join(root, path)), "\n//go:build ") {
		return false
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if found, _ := filepath.Glob(filepath.Join(root, dir, "go.mod")); len(found) > 0 {
			return false
		}
	}
	return true
}

// Programs that people begin with end well when they are asked to by a supervisor, not only by Ctrl-C.
func TestExamplesKnowSIGTERM(t *testing.T) {
	programs := 0
	for _, path := range goFiles(t, "examples") {
		text := read(t, path)
		if !strings.Contains(text, "\nfunc main()") {
			continue
		}
		programs++
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if name, _ := strconv.Unquote(i.Path.Value); name == "os/signal" && !strings.Contains(text, "syscall.SIGTERM") {
				t.Errorf("%s: it catches signals, and not SIGTERM", path)
			}
		}
		if !strings.Contains(text, "os/signal") && !strings.Contains(text, "SetupSignalHandler") {
			t.Errorf("%s: it is not told of signals, so nothing is handed over", path)
		}
	}
	if programs < 6 {
		t.Errorf("only %d programs were seen", programs)
	}
}

// goFiles are the files of Go below a folder, without tests.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
