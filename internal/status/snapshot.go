package status

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

// Snapshot is all that one replica knows of the cluster at a moment. It is shared between goroutines and never
// changed after it was published. Tasks and Locks are in order of key, Instances of name and then session, Overrides of
// kind, scope and name: [Snapshot.Sort] sees to it.
type Snapshot struct {
	// Version rises with every snapshot that one [Board] publishes; the board sets it.
	Version uint64

	Status    api.Status
	Tasks     []api.Task
	Instances []api.Instance
	Locks     []api.Lock     // those of programs may be missing: see [Config.Mutexes]
	Overrides []api.Override // that still count, also of what is not declared
}

// Sort puts every list into the order that the API promises. The maker of a snapshot calls it before publishing.
func (s *Snapshot) Sort() {
	slices.SortFunc(s.Tasks, func(a, b api.Task) int { return compare(a.Key, b.Key) })
	slices.SortFunc(s.Locks, func(a, b api.Lock) int { return compare(lockID(&a), lockID(&b)) })
	slices.SortFunc(s.Instances, func(a, b api.Instance) int { return compare(instanceID(&a), instanceID(&b)) })
	slices.SortFunc(s.Overrides, func(a, b api.Override) int { return compare(overrideID(&a), overrideID(&b)) })
	slices.SortFunc(s.Status.Groups, func(a, b api.Group) int { return compare(a.Name, b.Name) })
	SortProblems(s.Status.Problems)
}

// instanceID distinguishes the sessions of one name.
func instanceID(i *api.Instance) string { return i.Name + "\x00" + i.Session }
