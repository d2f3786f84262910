package discover

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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

// ValidatePatterns says what is wrong with the patterns of a lister's field. Those with variables are looked at when
// their values are known.
func ValidatePatterns(field string, texts []string) []decode.FieldError {
	if len(texts) == 0 {
		return []decode.FieldError{{Path: []string{field}, Message: "is required: " + PatternMust}}
	}
	var wrong []decode.FieldError
	for i, text := range texts {
		if _, err := ParsePatterns([]string{text}); err == nil || decode.HasVariables(text) {
			continue
		}
		at := []string{field} // which may be text, and not a list
		if len(texts) > 1 {
			at = append(at, strconv.Itoa(i))
		}
		wrong = append(wrong, decode.FieldError{Path: at, Must: PatternMust})
	}
	return wrong
}

// Patterns reads the patterns of a field, with variables replaced. What is wrong names the field, and never what a
// variable brought in.
func (e Env) Patterns(field string, texts []string) (Patterns, error) {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if expanded[i], err = e.Expand(fmt.Sprintf("%s[%d]", field, i), text); err != nil {
			return nil, err
		}
	}
	patterns, err := ParsePatterns(expanded)
	if err != nil {
		return nil, fmt.Errorf("%s: must be %s", field, PatternMust)
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
