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
	if len(before) == len(after) && (len(after) == 0 || &before[0] == &after[0]) {
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

func sameTask(a, b *api.Task) bool {
	return a.State == b.State && a.Instance == b.Instance && a.Session == b.Session &&
		a.FencingToken == b.FencingToken &&
		a.Restarts == b.Restarts && a.Reason == b.Reason && a.Message == b.Message && a.LastError == b.LastError &&
		a.PinnedTo == b.PinnedTo && a.Kind == b.Kind && a.OwnedSince.Equal(b.OwnedSince.Time) &&
		a.StateSince.Equal(b.StateSince.Time) && a.NextRunAt.Equal(b.NextRunAt.Time) &&
		maps.Equal(a.Labels, b.Labels) && sameLag(a.Lag, b.Lag) &&
		sameOverrides(a.Overrides, b.Overrides)
}

func sameLag(a, b *api.Lag) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameGroup(a, b *api.Group) bool {
	differs := func(state api.TaskState) bool { return a.InState(state) != b.InState(state) }
	return a.Name == b.Name && a.Tasks == b.Tasks && a.Imbalance == b.Imbalance &&
		!slices.ContainsFunc(api.TaskStates(), differs) &&
		sameInt(a.Cap, b.Cap) && sameInt(a.Capacity, b.Capacity) && sameInt(a.Headroom, b.Headroom) &&
		sameOverrides(a.Overrides, b.Overrides) && sameDiscovery(a.Discovery, b.Discovery)
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

func sameInt(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ageStep is how coarsely watchers hear of the age of heartbeats, in seconds. That of a live instance goes up and down
// all the time and would be the only news of an idle cluster.
const ageStep = 5

func sameInstance(a, b *api.Instance) bool {
	return a.State == b.State && a.Message == b.Message &&
		int(a.HeartbeatAgeSeconds/ageStep) == int(b.HeartbeatAgeSeconds/ageStep) &&
		a.Zone == b.Zone && a.Version == b.Version && a.Revision == b.Revision && a.Address == b.Address &&
		a.StartedAt.Equal(b.StartedAt.Time) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Owned, b.Owned) && maps.Equal(a.Caps, b.Caps) &&
		sameOverrides(a.Overrides, b.Overrides)
}

func sameProblem(a, b api.Problem) bool {
	since := a.Since.Equal(b.Since.Time)
	a.Since, b.Since = api.Time{}, api.Time{}
	return since && a == b
}

// sameStatus leaves out when it was observed, which every snapshot changes.
func sameStatus(a, b *api.Status) bool {
	return a.Cluster == b.Cluster && a.Instance == b.Instance && a.Version == b.Version && a.Stale == b.Stale &&
		a.Ready == b.Ready && a.Draining == b.Draining && a.Store == b.Store &&
		slices.EqualFunc(a.Groups, b.Groups, func(x, y api.Group) bool { return sameGroup(&x, &y) }) &&
		slices.EqualFunc(a.Problems, b.Problems, sameProblem)
}

func sameLock(a, b *api.Lock) bool {
	return a.Key == b.Key && sameOwner(a.Owner, b.Owner) && a.Reason == b.Reason && a.Message == b.Message &&
		a.Next == b.Next && a.Suspended == b.Suspended && a.Kind == b.Kind && a.Limit == b.Limit &&
		a.KeptUntil.Equal(b.KeptUntil.Time) && slices.EqualFunc(a.Holders, b.Holders, sameHolder) &&
		a.Waiting == b.Waiting && slices.Equal(a.Queue, b.Queue)
}

func sameOwner(a, b api.Owner) bool {
	since := a.OwnedSince.Equal(b.OwnedSince.Time)
	a.OwnedSince, b.OwnedSince = api.Time{}, api.Time{}
	return a == b && since
}

func sameHolder(a, b api.LockHolder) bool {
	since := a.HeldSince.Equal(b.HeldSince.Time)
	a.HeldSince, b.HeldSince = api.Time{}, api.Time{}
	return a == b && since
}

func sameOverrides(a, b api.Overrides) bool {
	return slices.EqualFunc(a, b, func(x, y api.Override) bool {
		times := x.At.Equal(y.At.Time) && x.Until.Equal(y.Until.Time)
		x.At, y.At, x.Until, y.Until = api.Time{}, api.Time{}, api.Time{}, api.Time{}
		return times && x == y
	})
}
