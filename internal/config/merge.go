package config

import "slices"

var (
	runners  = []string{"exec", "http", "callback"}
	triggers = []string{"schedule", "every"}
	// Fields of a task without ticks, and of one with; timeZone goes with schedule alone.
	restartFields = []string{"restart", "backoff", "maxRestarts"}
	tickFields    = []string{"overlap", "catchUp", "catchUpWindow", "timeout", "retry"}
)

// withDefaults is a task's node with its group's defaults: its own fields win, mappings merge, lists replace. A default that
// does not go with the task, as restart with a schedule, is left out: one group may hold tasks of all kinds.
func withDefaults(task, defaults *node) *node {
	if defaults == nil || task.kind != mapping {
		return task
	}
	skip := alternatives(task, runners)
	skip = append(skip, alternatives(task, triggers)...)
	has := func(name string) bool {
		return task.get(name) != nil || defaults.get(name) != nil && !slices.Contains(skip, name)
	}
	if has("schedule") || has("every") {
		skip = append(skip, restartFields...)
	} else {
		skip = append(skip, tickFields...)
	}
	if !has("schedule") {
		skip = append(skip, "timeZone")
	}
	return overlay(task, defaults, skip)
}

// alternatives are the others of names when the task has one of them itself.
func alternatives(task *node, names []string) []string {
	var own []string
	for _, name := range names {
		if task.get(name) != nil {
			own = append(own, name)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(own, name) })
}

// overlay is a copy of top with the fields of below that it has not. What it shares with them is not changed.
func overlay(top, below *node, skip []string) *node {
	merged := *top
	merged.entries = slices.Clone(top.entries)
	for _, e := range below.entries {
		if e.value.kind == void || slices.Contains(skip, e.name) {
			continue
		}
		i := slices.IndexFunc(merged.entries, func(own entry) bool { return own.name == e.name })
		switch {
		case i < 0:
			merged.entries = append(merged.entries, e)
		case merged.entries[i].value.kind == void:
			merged.entries[i] = e
		case merged.entries[i].value.kind == mapping && e.value.kind == mapping:
			merged.entries[i].value = overlay(merged.entries[i].value, e.value, nil)
		}
	}
	return &merged
}
