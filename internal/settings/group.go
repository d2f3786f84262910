package settings

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Group is a set of tasks balanced together under one cap.
type Group struct {
	Name     string
	Cap      *int              // most tasks one instance owns in this group; nil: no cap
	Selector map[string]string // labels an instance must have to own any; empty: all may
	Tasks    []tasks.Task      // braces expanded, in the order of the files; then slots, or those that were discovered
	Discover *Discover         // makes more tasks; nil: none are discovered
	// Slots is how many tasks are the slots of keys that nobody declares, see [tasks.Slot]; 0: none.
	Slots int
	// WeightFrom says what the weights of tasks come from.
	WeightFrom WeightFrom
	// Hash says which list this is, equal on replicas with equal lists. It is made of the tasks' names and fields as
	// written and the selector, never of what variables hold. The cap is left out, since each replica may have its own.
	Hash string
}

// WeightFrom says what the weights of a group's tasks come from. Tasks of which that is not measured have the weight
// that is declared.
type WeightFrom string

// What they may come from.
const (
	WeightDeclared WeightFrom = "declared" // the field weight alone
	WeightLag      WeightFrom = "lag"      // it, times what follows from how far a task is behind
	WeightReported WeightFrom = "reported" // the load that the task reports, beside that of the others
	WeightCPU      WeightFrom = "cpu"      // the processor time that its command uses, beside that of the others
)

// Measured reports whether weights come from more than the field weight.
func (f WeightFrom) Measured() bool { return f == WeightLag || f.Loads() }

// Loads reports whether weights come from loads.
func (f WeightFrom) Loads() bool { return f.Kinds() != nil }

// Kinds returns the kinds of tasks that may have a load. It is nil where weights do not come from loads.
func (f WeightFrom) Kinds() []string {
	switch f {
	case WeightReported:
		return []string{"callback", Assign}
	case WeightCPU:
		return []string{"exec"}
	default:
		return nil
	}
}

// Measures reports whether the weight of t, a task of the group, follows what is measured of it.
func (g *Group) Measures(t *tasks.Task) bool {
	if g.WeightFrom == WeightLag {
		return t.Subscribes()
	}
	return slices.Contains(g.WeightFrom.Kinds(), t.Kind())
}

// Discover configures the discovery of a group's tasks from what exists.
type Discover struct {
	Lister   discover.Lister // who is asked
	Interval time.Duration   // between two looks, at least 1 s
	Grace    time.Duration   // how long what has vanished stays
	Limit    int             // most tasks that are made
	Template Template        // makes them; nil: the configuration has none
}

// A Template makes tasks of what was discovered. It is safe for concurrent use.
type Template interface {
	// Tasks makes a task of each entry that was found, in that order. Entries of which none can be made are left out,
	// and refused says how many they are and what is wrong with the first.
	Tasks(found []discover.Found) (made []tasks.Task, refused error)
}
