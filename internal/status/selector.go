package status

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
	var s Selector
	for _, part := range splitOutside(text) {
		part = strings.TrimSpace(part)
		if part == "" {
			if strings.TrimSpace(text) == "" {
				return nil, nil
			}
			return nil, fmt.Errorf("selector %.200q: empty part between commas", text)
		}
		r, err := parseRequirement(part)
		if err != nil {
			return nil, fmt.Errorf("selector %.200q: %w", text, err)
		}
		s = append(s, r)
	}
	if !selectorForm().MatchString(text) {
		return nil, fmt.Errorf("selector %.200q: labels are of letters, digits, '.', '_', '-' and '/'", text)
	}
	return s, s.checkParts()
}

// maxParts is how many parts a selector may have. Each value of a set is one.
const maxParts = 100

func (s Selector) checkParts() error {
	n := 0
	for _, r := range s {
		n += max(1, len(r.values))
	}
	if n > maxParts {
		return fmt.Errorf("selector: it has %d parts, each value of a set counted; at most %d are taken", n, maxParts)
	}
	return nil
}

// The form of selectors, as openapi.json has it: some parts by commas, or none.
const (
	formSpace = `[ \t]*`
	formKey   = `[A-Za-z0-9._/-]+`
	formValue = `[A-Za-z0-9._-]*`
	formPart  = `(?:!?` + formSpace + formKey +
		`|` + formKey + formSpace + `(?:==|=|!=)` + formSpace + formValue +
		`|` + formKey + `[ \t]+(?:in|notin)` + formSpace +
		`\(` + formSpace + formValue + `(?:` + formSpace + `,` + formSpace + formValue + `)*` + formSpace + `\))`
)

var selectorForm = sync.OnceValue(func() *regexp.Regexp {
	const more = `(?:` + formSpace + `,` + formSpace + formPart + `)*`
	return regexp.MustCompile(`^` + formSpace + `(?:` + formPart + more + formSpace + `)?$`)
})

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

func parseRequirement(part string) (requirement, error) {
	for _, op := range []struct {
		text   string
		negate bool
	}{{"!=", true}, {"==", false}, {"=", false}} {
		if key, value, ok := strings.Cut(part, op.text); ok {
			r := requirement{key: strings.TrimSpace(key), negate: op.negate, values: []string{strings.TrimSpace(value)}}
			return r, r.check(part)
		}
	}
	words := strings.Fields(strings.Replace(part, "(", " (", 1))
	if len(words) > 1 && (words[1] == "in" || words[1] == "notin") {
		set, ok := parenthesised(strings.Join(words[2:], " "))
		if !ok {
			return requirement{}, fmt.Errorf("%q: want %s %s (a,b)", part, words[0], words[1])
		}
		r := requirement{key: words[0], negate: words[1] == "notin", values: set}
		return r, r.check(part)
	}
	r := requirement{any: true, key: part}
	if key, ok := strings.CutPrefix(part, "!"); ok {
		r.key, r.negate = strings.TrimSpace(key), true
	}
	return r, r.check(part)
}

func (r requirement) check(part string) error {
	bad := func(text string) bool { return strings.ContainsAny(text, " \t!=(),") }
	if r.key == "" || bad(r.key) || slices.ContainsFunc(r.values, bad) {
		return fmt.Errorf("%q: want k=v, k!=v, k in (a,b), k notin (a,b), k or !k", part)
	}
	return nil
}

func parenthesised(text string) ([]string, bool) {
	inner, opened := strings.CutPrefix(text, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed {
		return nil, false
	}
	values := strings.Split(inner, ",")
	for i, v := range values {
		values[i] = strings.TrimSpace(v)
	}
	return values, true
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

// Selection says which tasks are meant. Conditions add up; patterns are alternatives.
type Selection struct {
	Group    string   // empty: any
	Patterns []string // as in path.Match, of names where a group is given, else of GROUP/NAME; none: all
	Selector Selector
}

// Validate says what is wrong with a pattern.
func (s Selection) Validate() error {
	for _, pattern := range s.Patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is not a pattern: want * ? and [a-z]", pattern)
		}
	}
	return nil
}

// Select returns the keys of the declared tasks that are meant, in order, and those that are named in full, declared or
// not.
func (s *Snapshot) Select(which Selection) []string {
	var keys []string
	for i := range s.Tasks {
		if t := &s.Tasks[i]; which.match(t) {
			keys = append(keys, t.Key)
		}
	}
	for _, name := range which.Patterns {
		if strings.ContainsAny(name, `*?[\`) || len(which.Selector) > 0 {
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
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, text)
		return err == nil && ok
	}
	return (s.Group == "" || t.Group == s.Group) && s.Selector.Match(t.Labels) &&
		(len(s.Patterns) == 0 || slices.ContainsFunc(s.Patterns, matches))
}
