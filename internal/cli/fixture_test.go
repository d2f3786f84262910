package cli

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

// sample is a cluster with a little of everything: two groups, three instances of which one is dead, and problems.
func sample() *snapshot.Cluster {
	s := &snapshot.Cluster{
		Status: api.Status{
			Cluster: "default", Instance: "a", Version: "1.0.0", ObservedAt: ago(time.Second), Ready: true,
			Store: api.Store{Kind: "mongodb", Reachable: true},
			Groups: []api.Group{{
				Name: "topics", Cap: new(2),
				Weights: &api.Weights{From: "lag", Revision: 4, Raised: 1, PublishedAt: ago(5 * time.Minute), By: "b"},
			}, {Name: "jobs", Overrides: api.Overrides{
				{
					Kind: "pause", Scope: "group", Name: "jobs", By: "bob", At: ago(time.Minute),
					Until: ago(-2 * time.Hour),
				},
			}}},
			Problems: []api.Problem{
				{
					Reason: "NoHeadroom", Severity: api.SeverityWarning,
					Message: "losing b would leave 3 tasks over", Group: "topics", Since: ago(time.Hour),
				},
				{
					Reason: "NoCapacity", Severity: api.SeverityError,
					Message: "no instance has free capacity:\n2 of 2 are full \x1b[31m", Group: "topics",
					Task: "topics/topic-005", Since: ago(3 * time.Minute),
				},
			},
		},
		Tasks: snapshot.Listed([]api.Task{
			{
				Key: "topics/topic-001", State: api.Running,
				Owner:      api.Owner{Instance: "a", FencingToken: 1767323045000},
				StateSince: ago(90 * time.Second), Reason: "Created", Kind: "exec",
				Labels: api.Labels{"team": "core", "tier": "1"},
			},
			{
				Key: "topics/topic-002", State: api.Running,
				Owner:      api.Owner{Instance: "a", Session: "s-a", FencingToken: 7, OwnedSince: ago(5 * time.Minute)},
				StateSince: ago(5*time.Minute + 3*time.Second), Reason: "Orphaned",
				Message: "c died: no heartbeat for 20 s", Kind: "kafka", Lag: &api.Lag{Messages: 1200, Seconds: 42},
				Weight: 2, DeclaredWeight: 1,
			},
			{
				Key: "topics/topic-003", State: api.Backoff, Owner: api.Owner{Instance: "b", FencingToken: 8},
				StateSince: ago(2 * time.Hour), Reason: "Balance", Restarts: 12, LastError: "exit status 1",
				Kind: "exec", Message: "a owned 3 of 5 tasks, its share is 2", NextRunAt: ago(-40 * time.Second),
			},
			{
				Key: "topics/topic-004", State: api.Starting, Owner: api.Owner{Instance: "b", FencingToken: 9},
				StateSince: ago(0),
				Reason:     "Orphaned", Kind: "assign", PinnedTo: "b", Overrides: api.Overrides{{
					Kind: "pin", Scope: "task", Name: "topics/topic-004", To: "b", Strict: true, By: "ann",
					Reason: "near its data", At: ago(2 * time.Hour),
				}},
			},
			{
				Key: "topics/topic-005", State: api.Unassigned, Reason: "NoCapacity",
				Message: "no capacity: 2 replicas × cap 2 = 4, 5 tasks",
				Labels:  api.Labels{"team": "edge"}, Kind: "exec",
			},
			{
				Key: "jobs/nightly", State: api.Waiting, Owner: api.Owner{Instance: "b"},
				StateSince: ago(50 * time.Hour),
				NextRunAt:  ago(-2 * time.Hour), Kind: "exec",
			},
		}),
		Instances: []api.Instance{
			{
				Name: "a", Session: "s-a", State: api.Live, Zone: "z1", Version: "1.0.0", Revision: "r1",
				Address: "10.0.0.1:8080", AppAddress: "10.0.0.1:9000", StartedAt: ago(49 * time.Hour), HeartbeatAgeSeconds: .4,
				Owned: api.Counts{"topics": 2}, Caps: api.Counts{"topics": 2},
				Labels: api.Labels{"pool": "gpu"}, Overrides: api.Overrides{
					{Kind: "cordon", Scope: "instance", Name: "a", At: ago(time.Hour)},
				},
				Application: &api.Application{
					ID: "11111111-1111-4111-8111-111111111111", PID: 4711, Ready: true, Since: ago(time.Hour),
					LastCallAgeSeconds: new(0.3), Status: api.Labels{"lag": "7"},
					Stopping: []api.StoppingKey{{Key: "topics/topic-002", By: ago(-9 * time.Second)}},
				},
			},
			{
				Name: "b", Session: "s-b", State: api.Draining, Version: "1.0.0", StartedAt: ago(30 * time.Minute),
				HeartbeatAgeSeconds: 1.25, Owned: api.Counts{"topics": 2, "jobs": 1},
				Application: &api.Application{Message: "none has called at unix:/run/app.sock"},
				Caps:        api.Counts{"topics": 2}, Overrides: api.Overrides{{
					Kind: "drain", Scope: "instance", Name: "b", By: "ann", Reason: "new kernel",
					At: ago(5 * time.Minute),
				}},
			},
			{
				Name: "c", Session: "s-c", State: api.Dead, HeartbeatAgeSeconds: 312, Message: "no heartbeat for 20 s",
			},
			{Name: "d", Session: "s-d", State: api.Left, HeartbeatAgeSeconds: 900, Message: "it left in order"},
		},
		Leases: map[string]time.Duration{"s-a": 19600 * time.Millisecond},
		Locks: snapshot.Listed([]api.Lock{
			{
				Key: "locks/backup", Group: "locks", Name: "backup", Kind: api.LockTask,
				Owner: api.Owner{Instance: "a", Session: "s-a", FencingToken: 5, OwnedSince: ago(10 * time.Second)},
			},
			{
				Key: "topics/topic-005", Group: "topics", Name: "topic-005", Next: "s-b", Suspended: true,
				Kind: api.LockTask,
			},
			{
				Key: "topics/gone", Group: "topics", Name: "gone", Suspended: true, Reason: "Removed",
				Kind:    api.LockTask,
				Owner:   api.Owner{FencingToken: 4},
				Message: "no longer in the task list (revision 7)",
			},
		}),
	}
	tasks := s.Tasks.All()
	for i := range tasks {
		t := &tasks[i]
		t.Group, t.Name, _ = strings.Cut(t.Key, "/")
		if t.Group == "topics" {
			s.Status.Groups[0].Count(t.State)
		} else {
			s.Status.Groups[1].Count(t.State)
		}
	}
	for i := range tasks {
		s.Overrides = append(s.Overrides, tasks[i].Overrides...)
	}
	for i := range s.Instances {
		s.Overrides = append(s.Overrides, s.Instances[i].Overrides...)
	}
	s.Overrides = append(s.Overrides, s.Status.Groups[1].Overrides...)
	s.Overrides = append(s.Overrides, api.Override{
		Kind: "pause", Scope: "task", Name: "topics/gone", By: "ann", At: ago(50 * time.Hour),
		Until:  ago(-90 * time.Minute),
		Reason: "not declared any more \x1b[31m",
	})
	topics := &s.Status.Groups[0]
	topics.Capacity, topics.Headroom = new(4), new(2-topics.Demand())
	snapshot.SortTasks(tasks)
	snapshot.SortLocks(s.Locks.All())
	s.Sort()
	s.ListOwners(nil)
	return s
}

type fakeRuns []api.Run

func (f fakeRuns) Runs(_ context.Context, key string) ([]api.Run, error) {
	if key != "jobs/nightly" {
		return nil, nil
	}
	return f, nil
}

var ran = fakeRuns{
	{
		ScheduledAt: ago(time.Minute), StartedAt: ago(50 * time.Second), Result: "Running", Instance: "b",
		FencingToken: 9,
	},
	{
		ScheduledAt: ago(24 * time.Hour), StartedAt: ago(24 * time.Hour), EndedAt: ago(24*time.Hour - 3*time.Second),
		Result: "Failed", ExitCode: 3, Error: "exit status 3", Attempt: 2, Instance: "a", FencingToken: 8,
		Output: "reading\nno such table: sales",
	},
	{ScheduledAt: ago(36 * time.Hour), Result: "Skipped"},
	{
		ScheduledAt: ago(48 * time.Hour), StartedAt: ago(48 * time.Hour), EndedAt: ago(47 * time.Hour),
		Result: "Succeeded", Attempt: 1, Instance: "a", FencingToken: 7,
	},
}

// fakeLogs are what the tasks of one replica wrote.
type fakeLogs struct {
	mu    sync.Mutex
	lines map[string][]string
	left  bool // it holds none of them any more
	token int64
	asked func() // called once; nil: not
}

// onRead has do called when its output is read next.
func (f *fakeLogs) onRead(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = do
}

func (f *fakeLogs) Output(key string) (taskrun.Output, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked != nil {
		f.asked()
		f.asked = nil
	}
	texts, ok := f.lines[key]
	kept := taskrun.Output{Held: !f.left, Token: f.token}
	for i, text := range texts {
		kept.Lines = append(kept.Lines, taskrun.Line{
			Seq: uint64(i + 1), Time: epoch.Add(time.Duration(i) * time.Second), Token: f.token, Text: text,
		})
	}
	return kept, ok
}

func (f *fakeLogs) write(key string, lines ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines[key] = append(f.lines[key], lines...)
}

var wrote = &fakeLogs{lines: map[string][]string{"topics/topic-001": {"begun", "at offset 7"}}}

type fakeEvents []api.Event

func (f fakeEvents) Events(_ context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	var found []api.Event
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
