package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// filter is which items of a list a request asks for. Conditions add up; the values of one of them are alternatives.
type filter struct {
	groups, instances, states []string
	names                     snapshot.Patterns
	kinds                     []api.LockKind
	task                      string // the key of one
	slotOf                    string // a key of which the slot is meant
	selector                  snapshot.Selector
	text                      string // lower case
	since                     time.Time
}

// set takes one value of a condition.
func (f *filter) set(name, value string, states []string, now time.Time) (err error) {
	switch name {
	case "group":
		f.groups = append(f.groups, value)
	case "instance":
		f.instances = append(f.instances, value)
	case "state":
		f.states, err = appendSome(f.states, value, states)
	case "name":
		f.names = append(f.names, value)
		err = f.names[len(f.names)-1:].Validate()
	case "kind":
		f.kinds, err = appendSome(f.kinds, value, api.LockKinds())
	case "task":
		f.task = value
	case "for":
		f.slotOf = value
	case "selector":
		var s snapshot.Selector
		s, err = snapshot.ParseSelector(value)
		f.selector = append(f.selector, s...)
		if err == nil {
			err = f.selector.CheckParts()
		}
	case "q":
		f.text = strings.ToLower(value)
	case "since":
		f.since, err = parseSince(value, now)
	}
	return err
}

// appendSome appends those that a value names, between commas, and that the list does not have.
func appendSome[S ~string](list []S, value string, allowed []S) ([]S, error) {
	for part := range strings.SplitSeq(value, ",") {
		if !slices.Contains(allowed, S(part)) {
			return nil, fmt.Errorf("%q is not one of %s", part, strings.Join(names(allowed), ", "))
		}
		if !slices.Contains(list, S(part)) {
			list = append(list, S(part))
		}
	}
	return list, nil
}

// parseSince takes a moment in RFC 3339, or how long ago, as 10m.
func parseSince(value string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a moment as 2026-01-31T12:00:00Z nor how long ago as 10m", value)
	}
	return at, nil
}

// anyOf says whether a list of alternatives has the value, or is empty.
func anyOf[S comparable](list []S, value S) bool {
	return len(list) == 0 || slices.Contains(list, value)
}

func (f *filter) inGroup(name string) bool { return anyOf(f.groups, name) }

func (f *filter) onInstance(name string) bool { return anyOf(f.instances, name) }

// onlyInstance says whether the instance was asked for by name.
func (f *filter) onlyInstance(name string) bool { return slices.Contains(f.instances, name) }

func (f *filter) inState(state string) bool { return anyOf(f.states, state) }

// has says whether any of the texts contains the text that was searched for, in any case of letters.
func (f *filter) has(texts ...string) bool {
	return f.text == "" || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), f.text)
	})
}

// onlyGroup is the group that all events are of that can match; empty where they may be of several, or of none.
func (f *filter) onlyGroup() string {
	switch {
	case f.task != "":
		return groupOf(f.task)
	case len(f.groups) == 1:
		return f.groups[0]
	default:
		return f.names.Group()
	}
}

// wantsMutexes says whether locks of programs can be among what is asked for. They are in no group.
func (f *filter) wantsMutexes() bool {
	return len(f.groups) == 0 && (len(f.kinds) == 0 || slices.ContainsFunc(f.kinds, api.LockKind.OfProgram))
}

func groupOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

func names[S ~string](states []S) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}
