package status

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
)

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
