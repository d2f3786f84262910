package docs_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/pageblock"
)

// What a page shows of a bad night is shown by an end-to-end scenario, which finds it by its name.
func TestShown(t *testing.T) {
	var scenarios strings.Builder
	err := filepath.WalkDir(root+"/test/e2e", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			scenarios.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, page := range pages(t) {
		for _, block := range pageblock.Blocks(page, read(t, page)) {
			name, is := strings.CutPrefix(block.Directive, "shown: ")
			if !is {
				continue
			}
			if seen[name] != "" || !strings.HasPrefix(page, root+"/docs/operations/") {
				t.Errorf("%s:%d: %s stands in %s, too, or not in docs/operations", page, block.Line, name, seen[name])
			}
			seen[name] = page
			if !strings.Contains(scenarios.String(), `"`+name+`"`) {
				t.Errorf("%s:%d: no scenario shows %s", page, block.Line, name)
			}
			for _, c := range block.Commands() {
				if !strings.HasPrefix(c.Text, "shardctl ") || c.Output == "" {
					t.Errorf("%s:%d: %s: want a command of shardctl, and what it prints", page, block.Line, c.Text)
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d are shown", len(seen))
	}
}

// What a program says of a layout that it does not know is what the page quotes.
func TestLayoutOfAnotherVersion(t *testing.T) {
	const quoted = "says version 3, this program knows 2: upgrade it"
	if err := driver.CheckSchema("default.schema", 3, 2); err == nil || !strings.Contains(err.Error(), quoted) {
		t.Errorf("%v, want %q", err, quoted)
	}
	if !strings.Contains(read(t, "operations/upgrade-and-backup.md"), quoted) {
		t.Errorf("the page does not quote %q", quoted)
	}
}
