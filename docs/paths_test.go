package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pathSpan = regexp.MustCompile("`((?:cmd|config|docs|examples|helm|image|internal|pkg|test|bench)/[\\w./*-]+)`")

// Paths of this repository that stand in backquotes are there.
func TestPaths(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		if strings.Contains(page, "/adr/") || strings.HasSuffix(page, "CHANGELOG.md") { // history
			continue
		}
		for _, m := range pathSpan.FindAllStringSubmatch(read(t, page), -1) {
			checked++
			if found, err := filepath.Glob(filepath.Join(root, m[1])); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d paths were found", checked)
	}
}
