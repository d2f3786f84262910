package status

import (
	"maps"
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

// change is one item that differs between two snapshots; before or after is nil when it is not there.
type change[T any] struct{ before, after *T }

// diff compares two lists, both in order of id.
func diff[T any](before, after []T, id func(*T) string, same func(a, b *T) bool) []change[T] {
	if identical(before, after) {
		return nil // while nothing has changed, one snapshot shares its lists with the next
	}
	var changes []change[T]
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case j == len(after) || i < len(before) && id(&before[i]) < id(&after[j]):
			changes = append(changes, change[T]{before: &before[i]})
			i++
		case i == len(before) || id(&before[i]) > id(&after[j]):
			changes = append(changes, change[T]{after: &after[j]})
			j++
		default:
			if !same(&before[i], &after[j]) {
				changes = append(changes, change[T]{&before[i], &after[j]})
			}
			i++
			j++
		}
	}
	return changes
}

// identical says whether both are the same list in memory, or empty.
func identical[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Times below are all of UTC in milliseconds, so that == compares moments.

func sameTask(a, b *api.Task) bool {
	return a.State == b.State && a.Owner == b.Owner && a.Restarts == b.Restarts && a.Reason == b.Reason &&
		a.Message == b.Message && a.LastError == b.LastError && a.PinnedTo == b.PinnedTo && a.Kind == b.Kind &&
		a.StateSince == b.StateSince && a.NextRunAt == b.NextRunAt && maps.Equal(a.Labels, b.Labels) &&
		sameValue(a.Lag, b.Lag) && sameValue(a.Load, b.Load) && slices.Equal(a.Overrides, b.Overrides) &&
		a.Weight == b.Weight && a.DeclaredWeight == b.DeclaredWeight
}

// sameValue compares what pointers lead to; nil is like nil alone.
func sameValue[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameGroup(a, b *api.Group) bool {
	return a.Name == b.Name && a.TaskCounts == b.TaskCounts && a.Imbalance == b.Imbalance &&
		sameValue(a.Cap, b.Cap) && sameValue(a.Capacity, b.Capacity) && sameValue(a.Headroom, b.Headroom) &&
		slices.Equal(a.Overrides, b.Overrides) && sameDiscovery(a.Discovery, b.Discovery) &&
		sameValue(a.Weights, b.Weights) && a.Slots == b.Slots
}

// sameDiscovery leaves out when a look last succeeded, which would be the only news of an idle cluster.
func sameDiscovery(a, b *api.Discovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.LookedAt, y.LookedAt = api.Time{}, api.Time{}
	return x == y
}

// ageStep is how coarsely watchers hear of the age of heartbeats, in seconds. That of a live instance goes up and down
// all the time and would be the only news of an idle cluster.
const ageStep = 5

func sameInstance(a, b *api.Instance) bool {
	return a.State == b.State && a.Message == b.Message &&
		int(a.HeartbeatAgeSeconds/ageStep) == int(b.HeartbeatAgeSeconds/ageStep) &&
		a.Zone == b.Zone && a.Version == b.Version && a.Revision == b.Revision && a.Address == b.Address &&
		a.AppAddress == b.AppAddress && a.StartedAt == b.StartedAt && maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(a.Owned, b.Owned) && maps.Equal(a.Caps, b.Caps) &&
		slices.Equal(a.Overrides, b.Overrides) && sameApplication(a.Application, b.Application)
}

func sameApplication(a, b *api.Application) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.PID == b.PID && a.Ready == b.Ready && a.Message == b.Message && a.Since == b.Since &&
		lastCall(a) == lastCall(b) && maps.Equal(a.Status, b.Status) && slices.Equal(a.Stopping, b.Stopping)
}

// lastCall is the age of the last call, as coarsely as that of heartbeats; below 0: not known.
func lastCall(a *api.Application) int {
	if a.LastCallAgeSeconds == nil {
		return -1
	}
	return int(*a.LastCallAgeSeconds / ageStep)
}

// sameStatus leaves out when it was observed, which every snapshot changes.
func sameStatus(a, b *api.Status) bool {
	return a.Cluster == b.Cluster && a.Instance == b.Instance && a.Version == b.Version && a.Stale == b.Stale &&
		a.Ready == b.Ready && a.Draining == b.Draining && a.Store == b.Store &&
		slices.EqualFunc(a.Groups, b.Groups, func(x, y api.Group) bool { return sameGroup(&x, &y) }) &&
		slices.Equal(a.Problems, b.Problems)
}

func sameLock(a, b *api.Lock) bool {
	return a.Key == b.Key && a.Owner == b.Owner && a.Reason == b.Reason && a.Message == b.Message &&
		a.Next == b.Next && a.Suspended == b.Suspended && a.Kind == b.Kind && a.Limit == b.Limit &&
		a.KeptUntil == b.KeptUntil && slices.Equal(a.Holders, b.Holders) &&
		a.Waiting == b.Waiting && slices.Equal(a.Queue, b.Queue)
}
