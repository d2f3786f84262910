package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pathSpan = regexp.MustCompile("`((?:clients|cmd|config|docs|examples|helm|image|internal|pkg|test|bench)/[\\w./*-]+)`")

// Paths of this repository that stand in backquotes are there.
func TestPaths(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		if strings.Contains(page, "/adr/") { // history
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

var (
	testSpan  = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	focusSpan = regexp.MustCompile(`-ginkgo\.focus='([^']+)'`)
)

// Tests that pages name are there: functions, and texts that Ginkgo is asked to focus on.
func TestNamesOfTests(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == root+"/docs" {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all, checked := tests.String(), 0
	for _, page := range pages(t) {
		if strings.Contains(page, "/adr/") {
			continue
		}
		text := read(t, page)
		for _, m := range testSpan.FindAllStringSubmatch(text, -1) {
			checked++
			if !strings.Contains(all, "func "+m[1]+"(") {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
		for _, m := range focusSpan.FindAllStringSubmatch(text, -1) {
			for part := range strings.SplitSeq(m[1], "|") {
				checked++
				if !strings.Contains(all, part) {
					t.Errorf("%s: no test is about %q", page, part)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were found", checked)
	}
}
