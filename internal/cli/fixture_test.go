package cli

import (
	"context"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/status"
)

// sample is a cluster with a little of everything: two groups, three instances of which one is dead, and problems.
func sample() *status.Snapshot {
	s := &status.Snapshot{
		Status: status.Status{
			Cluster: "default", Instance: "a", Version: "1.0.0", ObservedAt: ago(time.Second), Ready: true,
			Store:  status.Store{Kind: "mongodb", Reachable: true},
			Groups: []status.Group{{Name: "topics", Cap: new(2)}, {Name: "jobs"}},
			Problems: []status.Problem{
				{
					Reason: "NoHeadroom", Severity: status.SeverityWarning,
					Message: "losing b would leave 3 tasks over", Group: "topics", Since: ago(time.Hour),
				},
				{
					Reason: "NoCapacity", Severity: status.SeverityError,
					Message: "no instance has free capacity:\n2 of 2 are full \x1b[31m", Group: "topics",
					Task: "topics/topic-005", Since: ago(3 * time.Minute),
				},
			},
		},
		Tasks: []status.Task{
			{
				Key: "topics/topic-001", State: status.Running, Instance: "a", FencingToken: 1767323045000,
				StateSince: ago(90 * time.Second), Reason: "Created", Kind: "exec",
				Labels: status.Labels{"team": "core", "tier": "1"},
			},
			{
				Key: "topics/topic-002", State: status.Running, Instance: "a", FencingToken: 7,
				StateSince: ago(5*time.Minute + 3*time.Second), Reason: "Orphaned",
				Message: "c died: no heartbeat for 20 s", Kind: "exec",
			},
			{
				Key: "topics/topic-003", State: status.Backoff, Instance: "b", FencingToken: 8,
				StateSince: ago(2 * time.Hour), Reason: "Balance", Restarts: 12, LastError: "exit status 1",
				Kind: "exec",
			},
			{
				Key: "topics/topic-004", State: status.Starting, Instance: "b", FencingToken: 9, StateSince: ago(0),
				Reason: "Orphaned", Kind: "http", PinnedTo: "b",
			},
			{
				Key: "topics/topic-005", State: status.Unassigned, Reason: "NoCapacity",
				Labels: status.Labels{"team": "edge"}, Kind: "exec",
			},
			{
				Key: "jobs/nightly", State: status.Waiting, Instance: "b", StateSince: ago(50 * time.Hour),
				NextRunAt: ago(-2 * time.Hour), Kind: "exec",
			},
		},
		Instances: []status.Instance{
			{
				Name: "a", Session: "s-a", State: status.Live, Zone: "z1", Version: "1.0.0", Revision: "r1",
				Address: "10.0.0.1:8080", StartedAt: ago(49 * time.Hour), HeartbeatAgeSeconds: .4,
				Owned: status.Counts{"topics": 2}, Caps: status.Counts{"topics": 2},
				Labels: status.Labels{"pool": "gpu"},
			},
			{
				Name: "b", Session: "s-b", State: status.Draining, Version: "1.0.0", StartedAt: ago(30 * time.Minute),
				HeartbeatAgeSeconds: 1.25, Owned: status.Counts{"topics": 2, "jobs": 1},
				Caps: status.Counts{"topics": 2},
			},
			{Name: "c", Session: "s-c", State: status.Dead, HeartbeatAgeSeconds: 312},
		},
		Locks: []status.Lock{
			{
				Key: "locks/backup", Group: "locks", Name: "backup", Instance: "a", Session: "s-a", FencingToken: 5,
				OwnedSince: ago(10 * time.Second),
			},
			{Key: "topics/topic-005", Group: "topics", Name: "topic-005", Next: "s-b", Suspended: true},
		},
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Group, t.Name, _ = strings.Cut(t.Key, "/")
		if t.Group == "topics" {
			s.Status.Groups[0].Count(t.State)
		} else {
			s.Status.Groups[1].Count(t.State)
		}
	}
	s.Status.Groups[0].Measure([]status.Offer{{Cap: 2, Owned: 2}, {Cap: 2, Owned: 2}})
	s.Sort()
	return s
}

type fakeEvents []status.Event

func (f fakeEvents) Events(_ context.Context, q status.EventQuery) ([]status.Event, error) {
	var found []status.Event
	for _, e := range f { // newest first
		if e.ID >= q.From && (q.To == "" || e.ID < q.To) {
			found = append(found, e)
		}
	}
	if q.OldestFirst {
		for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
			found[i], found[j] = found[j], found[i]
		}
	}
	return found[:min(len(found), q.Limit)], nil
}

func (f fakeEvents) EventsChanged() <-chan struct{} { return nil }

var happened = fakeEvents{
	{
		ID: "3", Time: ago(3 * time.Second), Type: "Moved", Reason: "Orphaned", Key: "topics/topic-002", From: "c",
		To: "a", FencingToken: 7, Message: "c died: no heartbeat for 20 s",
	},
	{ID: "2", Time: ago(4 * time.Second), Type: "Died", From: "c", Message: "no heartbeat for 20 s"},
	{ID: "1", Time: ago(time.Hour), Type: "Moved", Reason: "Created", Key: "topics/topic-001", To: "a", By: "admin"},
}
