// Package snapshottest makes snapshots of clusters for tests.
package snapshottest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// Epoch is when everything in the tests happens.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Cluster is a cluster of n tasks of the group topics on a, b and c, in turn; the last one has no owner.
func Cluster(n int) *snapshot.Cluster {
	s := &snapshot.Cluster{Status: api.Status{
		Cluster: "default", Instance: "a", Version: "1.0.0", ObservedAt: api.Time{Time: Epoch}, Ready: true,
		Store:  api.Store{Kind: "sqlite", Reachable: true},
		Groups: []api.Group{{Name: "topics", Cap: new(20)}},
		Problems: []api.Problem{{
			Reason: api.ProblemNoCapacity, Severity: api.SeverityError, Message: "no instance has free capacity",
			Group: "topics",
			Task:  fmt.Sprintf("topics/topic-%04d", n), Since: api.Time{Time: Epoch},
		}},
	}}
	group := &s.Status.Groups[0]
	var tasks []api.Task
	var locks []api.Lock
	owned := map[string]int{}
	for i := 1; i <= n; i++ {
		t := api.Task{
			Key: fmt.Sprintf("topics/topic-%04d", i), Group: "topics", Name: fmt.Sprintf("topic-%04d", i), Kind: "exec",
			Labels: api.Labels{"team": []string{"core", "edge"}[i%2]}, State: api.Running,
			Owner: api.Owner{
				Instance: string("abc"[i%3]), FencingToken: int64(i), OwnedSince: api.Time{Time: Epoch},
			},
			StateSince: api.Time{Time: Epoch}, Reason: "Created",
		}
		t.Session = "session-" + t.Instance
		if i == n {
			t.State, t.Reason, t.Owner = api.Unassigned, api.ProblemNoCapacity, api.Owner{FencingToken: t.FencingToken}
		}
		owned[t.Instance]++
		group.Count(t.State)
		tasks = append(tasks, t)
		locks = append(locks, api.Lock{
			Key: t.Key, Group: t.Group, Name: t.Name, Kind: api.LockTask,
			Owner: api.Owner{Instance: t.Instance, Session: t.Session, FencingToken: t.FencingToken},
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		s.Instances = append(s.Instances, api.Instance{
			Name: name, Session: "session-" + name, State: api.Live, Zone: "z1", Version: "1.0.0",
			StartedAt:           api.Time{Time: Epoch},
			HeartbeatAgeSeconds: 1.2, Owned: api.Counts{"topics": owned[name]}, Caps: api.Counts{"topics": 20},
		})
	}
	group.Capacity, group.Headroom = new(60), new(40-group.Demand())
	group.Imbalance = max(owned["a"], owned["b"], owned["c"]) - min(owned["a"], owned["b"], owned["c"])
	s.Tasks, s.Locks = snapshot.Listed(tasks), snapshot.Listed(locks)
	s.Sort()
	s.ListOwners(nil)
	return s
}

// Clone copies a snapshot so that it can be changed and published as the next one.
func Clone(t *testing.T, s *snapshot.Cluster) *snapshot.Cluster {
	t.Helper()
	c := jsonCopy(t, *s)
	c.Tasks, c.Locks = snapshot.Listed(jsonCopy(t, s.Tasks.All())), snapshot.Listed(jsonCopy(t, s.Locks.All()))
	return &c
}

func jsonCopy[T any](t *testing.T, v T) (c T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Board is one with s as its newest snapshot.
func Board(s *snapshot.Cluster) *snapshot.Board {
	var b snapshot.Board
	b.Publish(s)
	return &b
}
