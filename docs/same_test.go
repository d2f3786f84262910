package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/pageblock"
)

// What a page shows of a file is what stands in it.
func TestSame(t *testing.T) {
	shown := 0
	for _, page := range pages(t) {
		for _, f := range pageblock.Blocks(page, read(t, page)) {
			path, is := strings.CutPrefix(f.Directive, "same: ")
			if !is {
				continue
			}
			shown++
			rest := "\n" + unindented(read(t, filepath.Join(root, path)))
			for part := range strings.SplitSeq("\n"+unindented(f.Text), "\n…\n") { // such a line leaves lines out
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Errorf("%s:%d: this is not in %s, or not in this order:\n%s", f.Page, f.Line, path, part)
					break
				}
				rest = after
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
