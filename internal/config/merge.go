package config

import (
	"slices"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var triggers = []string{"schedule", "every"}

// kindOf is the kind that a task's field names; nil when it has none or several.
func kindOf(kinds *kind.Set[kind.Kind], task *decode.Node) kind.Kind {
	var found []kind.Kind
	for _, k := range kinds.All() {
		if task.Get(k.Name()) != nil {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// misplaced are the fields that only some tasks have and that do not go with a task of the kind.
func misplaced(kinds *kind.Set[kind.Kind], k kind.Kind, ticks, schedule bool) []string {
	goes := kind.FieldsOfWork()
	all := slices.Concat(goes.Owned, goes.Ticked)
	for _, other := range kinds.All() {
		all = append(append(all, other.Fields().Owned...), other.Fields().Ticked...)
	}
	going := goingWith(k, ticks)
	wrong := slices.DeleteFunc(all, func(name string) bool { return slices.Contains(going, name) })
	if !schedule {
		wrong = append(wrong, "timeZone")
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// goingWith are the fields that only some tasks have and that go with one of the kind; of a task without a kind, those
// of work.
func goingWith(k kind.Kind, ticks bool) []string {
	goes := kind.FieldsOfWork()
	if k != nil {
		goes = k.Fields()
	}
	if ticks {
		return goes.Ticked
	}
	return goes.Owned
}

// withDefaults is a task's node with its group's defaults: its own fields win, mappings merge, lists replace. A
// default that does not go with the task, as restart with a schedule, is left out: one group may hold tasks of all
// kinds.
func withDefaults(kinds *kind.Set[kind.Kind], task, defaults *decode.Node) *decode.Node {
	if defaults == nil || task.Shape != decode.Mapping {
		return task
	}
	skip := alternatives(task, kinds.Names())
	skip = append(skip, alternatives(task, triggers)...)
	merged := overlay(task, defaults, skip)
	schedule := merged.Get("schedule") != nil
	wrong := misplaced(kinds, kindOf(kinds, merged), schedule || merged.Get("every") != nil, schedule)
	if neverCatchesUp(merged) {
		wrong = append(wrong, "catchUpWindow")
	}
	return overlay(task, defaults, append(skip, wrong...))
}

// neverCatchesUp says whether a task has no use for a window in which to catch up.
func neverCatchesUp(task *decode.Node) bool {
	catchUp := task.Get("catchUp")
	return catchUp != nil && catchUp.Text == string(tasks.CatchUpNone)
}

// alternatives are the others of names when the task has one of them itself.
func alternatives(task *decode.Node, names []string) []string {
	isOwn := func(name string) bool { return task.Get(name) != nil }
	if !slices.ContainsFunc(names, isOwn) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), isOwn)
}

// overlay is a copy of top with the fields of below that it has not. What it shares with them is not changed.
func overlay(top, below *decode.Node, skip []string) *decode.Node {
	merged := *top
	merged.Entries = slices.Clone(top.Entries)
	for _, e := range below.Entries {
		if e.Value.Shape == decode.Void || slices.Contains(skip, e.Name) {
			continue
		}
		i := slices.IndexFunc(merged.Entries, func(own decode.Entry) bool { return own.Name == e.Name })
		switch {
		case i < 0:
			merged.Entries = append(merged.Entries, e)
		case merged.Entries[i].Value.Shape == decode.Void:
			merged.Entries[i] = e
		case merged.Entries[i].Value.Shape == decode.Mapping && e.Value.Shape == decode.Mapping:
			merged.Entries[i].Value = overlay(merged.Entries[i].Value, e.Value, nil)
		}
	}
	return &merged
}
