package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// longestSentence is how many words a sentence may have; most should have far fewer.
const longestSentence = 25

// longestReadme is how many words the README may have, tables and commands included.
const longestReadme = 1200

// otherWords are words that this project does not use for a thing, with the one that it uses. docs/concepts.md has a
// glossary.
var otherWords = map[string]string{
	"beat": "heartbeat", "beats": "heartbeats", "bump": "increment", "bumps": "increments", "mirror": "cache",
	"wish": "override", "wishes": "overrides",
	"nonsense": "malformed", "parked": "suspended", "far side": "HTTP endpoint", "far sides": "HTTP endpoints",
	"by hand": "manually, or out of band",
	"story":   "scenario", "stories": "scenarios", "storm": "chaos test", "storms": "chaos tests", "crowd": "fleet",
	"anew": "again", "mend": "fix", "mended": "fixed",
	"whoever": "who, or anyone who", "grants": "remote leases", "gives up": "releases", "give up": "release",
	"fail-over time": "fail-over",
}

var (
	comments   = regexp.MustCompile(`(?s)<!--.*?-->`)
	tableRow   = regexp.MustCompile(`(?m)^ *\|.*$`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	paragraph  = regexp.MustCompile(`\n\s*\n|\n *(?:[-*]|\d+\.) |(?m)^#+ .*$`)
	sentence   = regexp.MustCompile(`[.!?](?:["”)*_]*)(?:\s+|$)`)
)

// written are the pages that this test is about: those that people read for themselves. Decisions are history, and the
// page of the commands comes from the program.
func written(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(pages(t), func(page string) bool {
		own := strings.HasPrefix(page, root+"/docs/") || strings.HasPrefix(page, root+"/examples/") ||
			filepath.Dir(page) == root
		return !own || strings.Contains(page, "/adr/") ||
			strings.HasSuffix(page, "/commands.md") && !strings.Contains(page, "getting-started") ||
			strings.HasSuffix(page, "CHANGELOG.md")
	})
}

// prose is what is left of a page without code, tables and comments.
func prose(text string) string {
	for _, drop := range []*regexp.Regexp{fenced, comments, tableRow} {
		text = drop.ReplaceAllString(text, "\n")
	}
	text = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(text, "\n")
	text = codeSpan.ReplaceAllString(text, "CODE")
	return linkTarget.ReplaceAllString(text, "]")
}

func sentences(text string) []string {
	var all []string
	for _, part := range paragraph.Split(text, -1) {
		part = strings.Join(strings.Fields(part), " ")
		for _, s := range sentence.Split(part, -1) {
			if strings.ContainsFunc(s, unicode.IsLetter) {
				all = append(all, s)
			}
		}
	}
	return all
}

// Sentences are short, and things have one name.
func TestWords(t *testing.T) {
	checked := 0
	for _, page := range written(t) {
		text := prose(read(t, page))
		for _, s := range sentences(text) {
			checked++
			if n := len(strings.Fields(s)); n > longestSentence {
				t.Errorf("%s: %d words: %s", page, n, s)
			}
		}
		all := strings.ToLower(linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(fenced.ReplaceAllString(
			comments.ReplaceAllString(read(t, page), ""), ""), ""), "]"))
		for word, instead := range otherWords {
			if at := findWord(all, word); at >= 0 {
				t.Errorf("%s: %q: say %s: …%s…", page, word, instead, around(all, at))
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d sentences were found", checked)
	}
	if n := len(strings.Fields(read(t, root+"/README.md"))); n > longestReadme {
		t.Errorf("README.md has %d words, at most %d", n, longestReadme)
	}
}

// findWord is where the word stands in the text, as a word of its own, or -1.
func findWord(text, word string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(word)
		if (at == 0 || !letter(text[at-1])) && (end == len(text) || !letter(text[end])) {
			return at
		}
		from = end
	}
}

func letter(c byte) bool { return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }

func around(text string, at int) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text[max(0, at-40):min(len(text), at+60)], "")), " ")
}
