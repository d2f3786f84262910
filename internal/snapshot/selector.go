package snapshot

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/shardctl/shardctl/pkg/api"
)

// Selector asks for labels, in the words of kubectl: "k=v,k!=v,k in (a,b),k notin (a,b),k,!k". All parts must hold.
// The empty selector matches everything; as in kubectl, != and notin also match where the label is absent.
type Selector []requirement

type requirement struct {
	key    string
	negate bool
	any    bool // the label must (or, negated, must not) be there, whatever its value
	values []string
}

// ParseSelector reads a selector. Its errors name the part that is wrong and what is allowed.
func ParseSelector(text string) (Selector, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var s Selector
	for _, part := range splitOutside(text) {
		part = strings.Trim(part, " \t")
		if !partForm().MatchString(part) {
			return nil, fmt.Errorf("selector %.200q: %.200q: want k=v, k!=v, k in (a,b), k notin (a,b), k or !k, "+
				"of letters, digits, '.', '_', '-' and '/'", text, part)
		}
		s = append(s, parseRequirement(part))
	}
	return s, s.CheckParts()
}

// maxParts is how many parts a selector may have. Each value of a set is one part.
const maxParts = 100

// CheckParts says whether a selector has too many parts.
func (s Selector) CheckParts() error {
	n := 0
	for _, r := range s {
		n += max(1, len(r.values))
	}
	if n > maxParts {
		return fmt.Errorf("selector: it has %d parts, each value of a set counted; at most %d are taken", n, maxParts)
	}
	return nil
}

const (
	formSpace = `[ \t]*`
	formKey   = `[A-Za-z0-9._/-]+`
	formValue = `[A-Za-z0-9._-]*`
	formPart  = `(?:!?` + formSpace + formKey +
		`|` + formKey + formSpace + `(?:==|=|!=)` + formSpace + formValue +
		`|` + formKey + `[ \t]+(?:in|notin)` + formSpace +
		`\(` + formSpace + formValue + `(?:` + formSpace + `,` + formSpace + formValue + `)*` + formSpace + `\))`

	// SelectorPattern is the form of selectors as a regular expression: some parts by commas, or none.
	SelectorPattern = `^` + formSpace +
		`(?:` + formPart + `(?:` + formSpace + `,` + formSpace + formPart + `)*` + formSpace + `)?$`
)

var partForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + formPart + `$`) })

// Match says whether the labels are as asked.
func (s Selector) Match(labels map[string]string) bool {
	for _, r := range s {
		value, has := labels[r.key]
		holds := has && (r.any || slices.Contains(r.values, value))
		if holds == r.negate {
			return false
		}
	}
	return true
}

// parseRequirement reads a part of the right form.
func parseRequirement(part string) requirement {
	if head, list, ok := strings.Cut(part, "("); ok {
		words := strings.Fields(head)
		values := strings.Split(strings.TrimSuffix(list, ")"), ",")
		for i := range values {
			values[i] = strings.Trim(values[i], " \t")
		}
		return requirement{key: words[0], negate: words[1] == "notin", values: values}
	}
	if key, value, ok := strings.Cut(part, "="); ok {
		key, negate := strings.CutSuffix(key, "!")
		value = strings.Trim(strings.TrimPrefix(value, "="), " \t")
		return requirement{key: strings.TrimSpace(key), negate: negate, values: []string{value}}
	}
	key, negate := strings.CutPrefix(part, "!")
	return requirement{any: true, key: strings.TrimSpace(key), negate: negate}
}

// splitOutside splits at commas outside parentheses.
func splitOutside(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

// Patterns are names, and patterns of names as [path.Match] takes them. Any of them may match; an empty list matches
// everything.
type Patterns []string

// Validate returns an error for the first pattern that is malformed.
func (p Patterns) Validate() error {
	for _, pattern := range p {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is not a pattern: want * ? and [a-z]", pattern)
		}
	}
	return nil
}

// Match reports whether a name is one of p, or matches one of them.
func (p Patterns) Match(name string) bool {
	return len(p) == 0 || slices.ContainsFunc(p, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return pattern == name || err == nil && ok
	})
}

// Group returns the group of the keys that can match; empty where they may be of several.
func (p Patterns) Group() string {
	var only string
	for _, pattern := range p {
		group, _, _ := strings.Cut(pattern, "/")
		if IsPattern(group) || only != "" && group != only {
			return ""
		}
		only = group
	}
	return only
}

// IsPattern reports whether a text may match other names than itself.
func IsPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

// Selection says which tasks are meant. Conditions add up; patterns are alternatives.
type Selection struct {
	Group    string   // empty: any
	Patterns Patterns // of names where a group is given, else of GROUP/NAME
	Selector Selector
}

// Validate returns an error for the first pattern that is malformed.
func (s Selection) Validate() error { return s.Patterns.Validate() }

// Select returns the keys of the declared tasks that are meant, in order, and those that are named in full, declared or
// not.
func (s *Cluster) Select(which Selection) []string {
	var keys []string
	tasks := s.Tasks.All()
	for i := range tasks {
		if t := &tasks[i]; which.match(t) {
			keys = append(keys, t.Key)
		}
	}
	for _, name := range which.Patterns {
		if IsPattern(name) || len(which.Selector) > 0 {
			continue
		}
		if which.Group != "" {
			name = which.Group + "/" + name
		}
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (s Selection) match(t *api.Task) bool {
	text := t.Key
	if s.Group != "" {
		text = t.Name
	}
	return (s.Group == "" || t.Group == s.Group) && s.Selector.Match(t.Labels) && s.Patterns.Match(text)
}
