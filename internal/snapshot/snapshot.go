// Package snapshot is what one replica knows of a cluster at a moment, and how its tasks and events are selected. It is
// data, and the [Board] that the newest of it is found on: package view makes snapshots, and package status serves them.
package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// Cluster is all that one replica knows of the cluster at a moment. It is shared between goroutines and never
// changed after it was published. Tasks, Owners and Locks are in order of key, Instances of name and then session, Overrides of
// kind, scope and name.
type Cluster struct {
	Version uint64 // rises with every snapshot that a replica publishes

	Status    api.Status
	Tasks     List[api.Task]
	Instances []api.Instance
	Owners    List[api.KeyOwner] // of the tasks that have one: see [Cluster.ListOwners]
	Locks     List[api.Lock]     // those of programs are read apart
	Overrides []api.Override     // in force, also of what is not declared

	Leases map[string]time.Duration // what was left of those of the sessions that live, when it was made
}

// Sort puts the instances, overrides, groups and problems into the order that the API promises. The maker of a snapshot
// calls it before publishing.
func (s *Cluster) Sort() {
	slices.SortFunc(s.Instances, func(a, b api.Instance) int {
		return strings.Compare(InstanceID(&a), InstanceID(&b))
	})
	slices.SortFunc(s.Overrides, func(a, b api.Override) int {
		return strings.Compare(OverrideID(&a), OverrideID(&b))
	})
	slices.SortFunc(s.Status.Groups, func(a, b api.Group) int { return strings.Compare(a.Name, b.Name) })
	SortProblems(s.Status.Problems)
}

// SortTasks puts tasks in order of their keys.
func SortTasks(tasks []api.Task) {
	slices.SortFunc(tasks, func(a, b api.Task) int { return strings.Compare(a.Key, b.Key) })
}

// SortLocks puts locks in order of their [LockID].
func SortLocks(locks []api.Lock) {
	slices.SortFunc(locks, func(a, b api.Lock) int { return strings.Compare(LockID(&a), LockID(&b)) })
}

// Task is the one with that key, nil when there is none. The snapshot is in order.
func (s *Cluster) Task(key string) *api.Task {
	tasks := s.Tasks.All()
	i, found := slices.BinarySearchFunc(tasks, key, func(t api.Task, key string) int {
		return strings.Compare(t.Key, key)
	})
	if !found {
		return nil
	}
	return &tasks[i]
}

// Group is the one with that name, nil when there is none. The snapshot is in order.
func (s *Cluster) Group(name string) *api.Group {
	i, found := slices.BinarySearchFunc(s.Status.Groups, name, func(g api.Group, name string) int {
		return strings.Compare(g.Name, name)
	})
	if !found {
		return nil
	}
	return &s.Status.Groups[i]
}

// participation orders the states of instances; the dead have 0.
var participation = map[api.InstanceState]int{api.Live: 3, api.Draining: 2, api.Left: 1}

// Instance is the one with that name, nil when there is none. Of several sessions it is the one that takes part most,
// and of those the newest.
func (s *Cluster) Instance(name string) *api.Instance {
	var best *api.Instance
	for i := range s.Instances {
		c := &s.Instances[i]
		if c.Name != name {
			continue
		}
		if best == nil || participation[c.State] > participation[best.State] ||
			c.State == best.State && c.StartedAt.After(best.StartedAt.Time) {
			best = c
		}
	}
	return best
}

// InstanceID distinguishes the sessions of one name.
func InstanceID(i *api.Instance) string { return i.Name + "\x00" + i.Session }

// LockID distinguishes the key of a task and a lock of a program with the same name.
func LockID(l *api.Lock) string {
	if l.Kind.OfProgram() {
		return l.Key + "\x00"
	}
	return l.Key
}

// OverrideID distinguishes overrides: there is one of a kind about one object.
func OverrideID(o *api.Override) string { return o.Kind + "/" + o.Scope + "/" + o.Name }

// badness orders severities; others have 0.
var badness = map[api.Severity]int{api.SeverityError: 2, api.SeverityWarning: 1}

// SortProblems puts errors before warnings, and then the order is by reason, group, task and instance.
func SortProblems(problems []api.Problem) {
	slices.SortStableFunc(problems, func(a, b api.Problem) int {
		return cmp.Or(
			cmp.Compare(badness[b.Severity], badness[a.Severity]),
			strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Group, b.Group),
			strings.Compare(a.Task, b.Task),
			strings.Compare(a.Instance, b.Instance),
		)
	})
}

// OfOneReplica says whether only the replica that has a problem of this reason can find it. It shares it with the
// others, which show it too.
func OfOneReplica(reason string) bool {
	switch reason {
	case api.ProblemStopStuck, api.ProblemStartStuck, api.ProblemStoreRefuses, api.ProblemStoreSlow,
		api.ProblemStoreForgot, api.ProblemClockSkew,
		api.ProblemConfigInvalid, api.ProblemRestartRequired, api.ProblemNoApplication:
		return true
	default:
		return false
	}
}

// FoundBy says whether the instance itself found the problem, rather than read of it.
func FoundBy(p *api.Problem, instance string) bool {
	return p.Instance == instance || !OfOneReplica(p.Reason)
}

// Runbook is the address of the section that says what to do about problems of this reason.
func Runbook(reason string) string {
	return "https://github.com/shardctl/shardctl/blob/main/docs/operations/problems.md#" + strings.ToLower(reason)
}

// EventQuery selects events. Conditions add up.
type EventQuery struct {
	Group       string    // only of this group; empty: any
	From        string    // only ids >= From; empty: no bound
	To          string    // only ids < To; empty: no bound
	Since       time.Time // only at or after this moment; zero: no bound
	Limit       int       // at most so many, at least 1
	OldestFirst bool      // else newest first
}

// The types of events about tasks that end badly. Their messages hold the error.
const (
	EventRunFailed = "RunFailed" // the last try of a tick failed
	EventFailed    = "Failed"    // a task failed for good
	EventCrashLoop = "CrashLoop" // a task ends again and again
)
