package tasks

import "github.com/shardctl/shardctl/pkg/elect"

// Identity says which task a run is of. It has its group and name, its place in the braces of its name (empty without
// braces) and its labels, which must not be changed.
type Identity struct {
	Group, Name, Index string
	Labels             map[string]string
	Discovered         Discovered
}

// Discovered is what a task was made for by its group's discover; zero for a task of a list. Partition is empty where
// there are none.
type Discovered struct{ Name, Partition string }

// Key is what is locked for the task.
func (i Identity) Key() elect.Key { return elect.NewKey(i.Group, i.Name) }
