package discover

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
)

// Lister asks one place what is there. It is a value that is never changed, and its methods may be called
// concurrently.
type Lister interface {
	// Kind is the field of discover that chooses it, as http. It names the lister in status and logs.
	Kind() string
	// Validate says what is wrong with it, all at once. Fields with variables are looked at when their values are
	// known.
	Validate() []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in and without passwords.
	Print() any
	// List returns everything that is there now, in any order, or an error that names what was asked and why it
	// failed, never a password. Part of a list is an error: what is missing from a list vanishes. List returns soon
	// after ctx ends.
	List(ctx context.Context, env Env) ([]Found, error)
}

// Kind is a kind of lister. Its field is one of discover.
type Kind = decode.Kind[Lister]

// Env is what a lister is given for one List.
type Env struct {
	Group string
	// Lookup finds variables, as [os.LookupEnv] does.
	Lookup    decode.Lookup
	Functions Functions
}

// Expand replaces the variables in text. What is wrong names the field.
func (e Env) Expand(field, text string) (string, error) {
	value, err := variables.Expand(text, e.find)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}

func (e Env) find(name string) (string, bool) {
	switch {
	case name == variables.Group:
		return e.Group, true
	case e.Lookup == nil || variables.IsOwn(name):
		return "", false
	default:
		return e.Lookup(name)
	}
}

// Function lists what is there, as [Lister]'s List does. ctx ends when the replica no longer looks.
type Function func(ctx context.Context) ([]Found, error)

// Functions are listers written in Go, by name.
type Functions map[string]Function

// Patterns say which names are wanted: those that match one of them.
type Patterns []*regexp.Regexp

// patternMust is what a pattern must be, in words.
const patternMust = "a name in which * stands for any text and ? for one character, or a regular expression as /^a|b$/"

// ParsePatterns reads patterns. In one, * stands for any text and ? for one character; all else stands for itself, and
// the whole name must match. Between slashes it is a regular expression (RE2), which may match any part of a name.
func ParsePatterns(texts []string) (Patterns, error) {
	patterns := make(Patterns, len(texts))
	for i, text := range texts {
		var source string
		switch inner, is := strings.CutPrefix(text, "/"); {
		case text == "":
			return nil, fmt.Errorf("a pattern is empty, must be %s", patternMust)
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
		return []decode.FieldError{{Path: []string{field}, Message: "is required: " + patternMust}}
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
		wrong = append(wrong, decode.FieldError{Path: at, Must: patternMust})
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
		return nil, fmt.Errorf("%s: must be %s", field, patternMust)
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
