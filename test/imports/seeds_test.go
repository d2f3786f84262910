package imports_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package whose tests draw from rapid imports package seeds, or its cases would not be the same for everybody.
func TestWhoDrawsFromRapidFixesItsSeed(t *testing.T) {
	draws, fixes := map[string]bool{}, map[string]bool{}
	root := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."), entry.Name() == "node_modules":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			switch strings.Trim(spec.Path.Value, `"`) {
			case "pgregory.net/rapid":
				draws[filepath.Dir(path)] = true
			case module + "test/seeds":
				fixes[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(draws) < 10 {
		t.Errorf("found only %d packages that use rapid", len(draws))
	}
	for dir := range draws {
		if !fixes[dir] {
			t.Errorf("%s: tests use rapid, and do not import %stest/seeds", dir, module)
		}
	}
}
