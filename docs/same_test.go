package docs_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// What a page shows of a file is what stands in it.
func TestSame(t *testing.T) {
	shown := 0
	for _, page := range pages(t) {
		for _, f := range fences(page, read(t, page)) {
			path, is := strings.CutPrefix(f.directive, "same: ")
			if !is {
				continue
			}
			shown++
			if file := read(t, filepath.Join(root, path)); !strings.Contains(unindented(file), unindented(f.text)) {
				t.Errorf("%s:%d: this is not in %s:\n%s", f.page, f.line, path, f.text)
			}
		}
	}
	if shown == 0 {
		t.Error("no page shows a part of a file")
	}
}

// unindented takes the blanks away that lines begin with: a page shows a part of a function without them.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
