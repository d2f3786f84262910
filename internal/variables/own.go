package variables

import (
	"slices"
	"strconv"
)

// The names of a task's own variables.
const (
	Task                = "SHARDCTL_TASK"
	Group               = "SHARDCTL_GROUP"
	Key                 = "SHARDCTL_KEY"
	Instance            = "SHARDCTL_INSTANCE"
	Index               = "SHARDCTL_INDEX"
	FencingToken        = "SHARDCTL_FENCING_TOKEN" //nolint:gosec // G101: a variable's name
	Session             = "SHARDCTL_SESSION"
	ScheduledAt         = "SHARDCTL_SCHEDULED_AT"
	DiscoveredName      = "DISCOVERED_NAME"
	DiscoveredPartition = "DISCOVERED_PARTITION"
)

// Own is one of a task's own variables. They are in the environment of its commands, and $(NAME) stands for them.
type Own struct {
	Name string
	Doc  string // what it holds, as the documentation says it
	Of   Tasks  // those that have it
	// AtStart says that only a start knows it: texts of what runs can use it, other fields of a task cannot.
	AtStart bool

	value func(Values) string
}

// Tasks says which tasks have a variable, in words; empty: all have it.
type Tasks string

// Tasks that have variables of their own.
const (
	Numbered   Tasks = "slots, and tasks with braces in their name"
	Ticked     Tasks = "tasks with schedule or every"
	Discovered Tasks = "tasks that are discovered: only a group's template can use it"
)

// all are the task's own variables, in the order in which they are documented.
var all = []Own{
	{Name: Task, Doc: "the task's name", value: func(v Values) string { return v.Name }},
	{Name: Group, Doc: "its group", value: func(v Values) string { return v.Group }},
	{Name: Key, Doc: "GROUP/NAME", value: func(v Values) string { return v.Key }},
	{
		Name: Index, Doc: "the place of the name among those that its braces make, or the number of a slot", Of: Numbered,
		value: func(v Values) string { return v.Index },
	},
	{
		Name: DiscoveredName, Doc: "what was discovered; whoever can make such things chose it", Of: Discovered,
		value: func(v Values) string { return v.Discovered },
	},
	{
		Name: DiscoveredPartition, Doc: "its partition, or nothing", Of: Discovered,
		value: func(v Values) string { return v.Partition },
	},
	{Name: Instance, Doc: "the replica that runs it", value: func(v Values) string { return v.Instance }},
	{
		Name: Session, Doc: "the session of that replica", AtStart: true,
		value: func(v Values) string { return v.Session },
	},
	{
		Name: FencingToken, Doc: "the fencing token of this start", AtStart: true,
		value: func(v Values) string { return strconv.FormatInt(v.Token, 10) },
	},
	{
		Name: ScheduledAt, Doc: "the tick that this run is for, in RFC 3339", Of: Ticked, AtStart: true,
		value: func(v Values) string { return v.Tick },
	},
}

// All returns a task's own variables, in the order in which they are documented.
func All() []Own { return slices.Clone(all) }

// OwnOf finds one of a task's own variables by its name.
func OwnOf(name string) (own Own, ok bool) {
	i := slices.IndexFunc(all, func(o Own) bool { return o.Name == name })
	if i < 0 {
		return Own{}, false
	}
	return all[i], true
}

// IsOwn reports whether a variable is one of a task's own.
func IsOwn(name string) bool {
	_, is := OwnOf(name)
	return is
}

// Values are what the variables of one task are made of: of a start, or of one that is still to come.
type Values struct {
	Group, Name, Key      string
	Index                 string // empty of a task that is not numbered
	Discovered, Partition string // Discovered is empty of a task that was not discovered
	Instance              string

	Started bool // the rest is known as well
	Session string
	Token   int64
	Tick    string // empty of a task without ticks
}

// Set returns the variables that the task has.
func (v Values) Set() Set {
	set := make(Set, len(all))
	for _, own := range all {
		if v.have(own) {
			set[own.Name] = own.value(v)
		}
	}
	return set
}

// have reports whether the task has a variable, as far as is known of it.
func (v Values) have(own Own) bool {
	switch {
	case own.AtStart && !v.Started:
		return false
	case own.Of == Numbered:
		return v.Index != ""
	case own.Of == Discovered:
		return v.Discovered != ""
	case own.Of == Ticked:
		return v.Tick != ""
	default:
		return true
	}
}
