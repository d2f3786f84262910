// Package docs holds what is written for people, and tests that keep it true. They check that its links lead somewhere,
// that its sums are right, and that the values it shows are values that are checked.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository's, seen from here.
const root = ".."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are those whose links are followed: the README, these docs with the decisions, and the READMEs of parts.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/*/*.md", "helm/shardctl/README.md", "image/README.md", "bench/README.md",
		"test/broken/README.md", "test/e2e/kube/README.md", "clients/README.md", "clients/*/README.md",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages: %v", len(all), all)
	}
	return all
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	links   = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()]*\))?[^()\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are what GitHub makes of a page's headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		all[slug] = true
	}
	return all
}

// Links within the repository lead to files that are there, and to headings that are in them.
func TestLinks(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		for _, m := range links.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			path, anchor, hasAnchor := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			if hasAnchor && strings.HasSuffix(target, ".md") && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were checked", checked)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
