package discover

import (
	"fmt"
	"regexp"
	"strings"
)

// Patterns say which names are wanted: those that match one of them.
type Patterns []*regexp.Regexp

// PatternMust is what a pattern must be, in words.
const PatternMust = "a name in which * stands for any text and ? for one character, or a regular expression as /^a|b$/"

// ParsePatterns reads patterns. In one, * stands for any text and ? for one character; all else stands for itself, and
// the whole name must match. Between slashes it is a regular expression (RE2), which may match any part of a name.
func ParsePatterns(texts []string) (Patterns, error) {
	patterns := make(Patterns, len(texts))
	for i, text := range texts {
		var source string
		switch inner, is := strings.CutPrefix(text, "/"); {
		case text == "":
			return nil, fmt.Errorf("a pattern is empty, must be %s", PatternMust)
		case is && len(inner) > 1 && strings.HasSuffix(inner, "/"):
			source = strings.TrimSuffix(inner, "/")
		default:
			source = strings.NewReplacer(`\*`, "(?s:.*)", `\?`, "(?s:.)").Replace(regexp.QuoteMeta(text))
			source = "^" + source + "$"
		}
		pattern, err := regexp.Compile(source)
		if err != nil {
			return nil, fmt.Errorf("a pattern is no regular expression: %w", err)
		}
		patterns[i] = pattern
	}
	return patterns, nil
}

// Match says whether a name is wanted.
func (p Patterns) Match(name string) bool {
	for _, pattern := range p {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}
