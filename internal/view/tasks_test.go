package view

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/runners/assign"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/viewtest"
)

func TestTaskStates(t *testing.T) {
	const key = elect.Key("g/t1")
	failed, done := &elect.RunOutcome{Error: "exit status 3"}, &elect.RunOutcome{Succeeded: true}
	suspended := func(o *elect.RunOutcome) *record.Lock {
		l := viewtest.Lock(key, "", "failed")
		l.Suspended, l.Status.Outcome = true, o
		return l
	}
	given := viewtest.Lock(key, "", "")
	given.From, given.Reason = "b", record.ReasonDrain
	for name, test := range map[string]struct {
		lock    *record.Lock
		change  func(*cluster.View)
		runner  tasks.Runner // another than exec; nil: exec
		reason  string       // of the plan, why the key is unassigned
		want    api.TaskState
		shown   string // reason shown; empty: any
		message string // part of it
		owner   string
	}{
		"no lock yet": {want: api.Unassigned, shown: "Created", message: "first time"},
		"no free capacity": {
			reason: balancer.NoCapacity, want: api.Unassigned, shown: "NoCapacity", message: "as the plan says",
		},
		"no instance may": {
			reason: balancer.NoInstance, want: api.Unassigned, shown: "NoInstance", message: "as the plan says",
		},
		"released": {lock: given, want: api.Unassigned, shown: "Drain", message: "released by b"},
		"owner dead": {
			lock: viewtest.Lock(key, "C", "running"), want: api.Unassigned, shown: "Orphaned", message: "iC is gone",
		},
		"owner unknown": {lock: viewtest.Lock(key, "Z", "running"), want: api.Unassigned, shown: "Orphaned"},
		"running": {
			lock: viewtest.Lock(key, "B", "running"), want: api.Running, shown: "Created", owner: "b",
		},
		"waiting":              {lock: viewtest.Lock(key, "B", "waiting"), want: api.Waiting, owner: "b"},
		"backoff":              {lock: viewtest.Lock(key, "B", "backoff"), want: api.Backoff, owner: "b"},
		"claimed, no word yet": {lock: viewtest.Lock(key, "B", ""), want: api.Starting, owner: "b"},
		"malformed":            {lock: viewtest.Lock(key, "B", "unassigned"), want: api.Starting, owner: "b"},
		"stopping here": {
			lock: viewtest.Lock(key, "A", "running"), change: hold(key, cluster.PhaseStopping), want: api.Stopping,
			owner: "a",
		},
		"releasing here": {
			lock: viewtest.Lock(key, "A", "running"), change: hold(key, cluster.PhaseReleasing), want: api.Stopping,
			owner: "a",
		},
		"running here": {
			lock: viewtest.Lock(key, "A", "running"), change: hold(key, cluster.PhaseRunning), want: api.Running,
			owner: "a",
		},
		"stopped here at the end of the lease": {
			lock: viewtest.Lock(key, "A", "running"), change: hold(key, cluster.PhaseWaiting), want: api.Unassigned,
			shown: api.ProblemStoreUnreachable, message: "a stopped it",
		},
		"claimed here again": {
			lock: viewtest.Lock(key, "A", "running"), change: hold(key, cluster.PhaseClaiming), want: api.Starting,
			owner: "a",
		},
		"done":                      {lock: suspended(done), want: api.Done},
		"failed":                    {lock: suspended(failed), want: api.Failed},
		"suspended without outcome": {lock: suspended(nil), want: api.Unassigned},
		"paused": {
			lock: given, change: viewtest.Override(record.OverridePause, key, ""), want: api.Paused, shown: "Paused",
			message: "paused by ann (test)",
		},
		"in a paused group": {
			change: func(v *cluster.View) {
				v.Overrides = []record.Override{
					{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g", By: "bob"},
				}
			}, want: api.Paused, shown: "Paused", message: "its group is paused by bob",
		},
		"owner dead, its cause is known": {
			lock: viewtest.Lock(key, "C", "running"), change: func(v *cluster.View) {
				v.Sessions[2].Cause = "no heartbeat for 20 s"
			}, want: api.Unassigned, shown: "Orphaned", message: "iC died: no heartbeat for 20 s",
		},
		"owner dead, an endpoint may go on": {
			lock: viewtest.Lock(key, "C", "running"), change: func(v *cluster.View) {
				v.Sessions[2].Remote = map[elect.Key]int64{key: 1000}
			}, want: api.Unassigned, shown: "Orphaned",
			message: "It waits for the remote lease that an HTTP endpoint has of it",
		},
		"owner dead, its application may go on": {
			lock: viewtest.Lock(key, "C", "running"), change: func(v *cluster.View) {
				v.Sessions[2].Remote = map[elect.Key]int64{key: 1000}
			}, runner: assign.Runner{}, want: api.Unassigned, shown: "Orphaned",
			message: "It waits for the remote lease that an application has of it",
		},
		"to be paused, still runs": {
			lock: viewtest.Lock(key, "B", "running"), change: viewtest.Override(record.OverridePause, key, ""),
			want: api.Running, owner: "b",
		},
		"pinned to no instance": {
			change: viewtest.Override(record.OverridePin, key, "x"), reason: balancer.PinUnavailable, want: api.Unassigned,
			shown: "PinUnavailable", message: "as the plan says",
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewtest.Cluster()
			if test.lock != nil {
				view.Locks[key] = test.lock
			}
			if test.change != nil {
				test.change(view)
			}
			report := &reconcile.Report{}
			if test.reason != "" {
				report.Unassigned = []reconcile.Refusal{{Key: key, Reason: test.reason, Message: "as the plan says"}}
			}
			s := viewtest.Settings(t)
			task := s.Groups[0].Tasks[0]
			if test.runner != nil {
				task.Runner = test.runner
			}
			got := makerOf(s, view, report).tasks.task(&task)
			if got.State != test.want || got.Instance != test.owner || test.shown != "" && got.Reason != test.shown ||
				!strings.Contains(got.Message, test.message) {
				t.Errorf("got %+v", got)
			}
			if got.OwnedSince.IsZero() != (test.owner == "") || (got.Session == "") != (test.owner == "") {
				t.Errorf("owner %q, but session %q since %v", test.owner, got.Session, got.OwnedSince)
			}
		})
	}
}

func hold(key elect.Key, phase cluster.Phase) func(*cluster.View) {
	return func(v *cluster.View) { v.Held[key] = cluster.Held{Phase: phase} }
}

// TestCountsSumUp: whatever the view holds, a group's counts add up to its tasks, and so do the tasks that are shown.
func TestCountsSumUp(t *testing.T) {
	s := viewtest.Settings(t)
	rapid.Check(t, func(t *rapid.T) {
		view := viewtest.Cluster()
		for i := range s.Groups[0].Tasks {
			key := s.Groups[0].Tasks[i].Key()
			if rapid.Bool().Draw(t, "locked") {
				l := viewtest.Lock(key, rapid.SampledFrom([]string{"", "A", "B", "C", "Z"}).Draw(t, "owner"),
					rapid.SampledFrom([]string{
						"", "waiting", "running", "starting", "stopping", "backoff", "done",
						"failed", "paused", "?",
					}).Draw(t, "state"))
				l.Suspended = rapid.Bool().Draw(t, "suspended")
				if rapid.Bool().Draw(t, "ended") {
					l.Status.Outcome = &elect.RunOutcome{Succeeded: rapid.Bool().Draw(t, "succeeded")}
				}
				view.Locks[key] = l
			}
			if rapid.Bool().Draw(t, "held") {
				hold(key, rapid.SampledFrom([]cluster.Phase{
					cluster.PhaseClaiming, cluster.PhaseWaiting, cluster.PhaseRunning, cluster.PhaseStopping,
					cluster.PhaseReleasing,
				}).Draw(t, "phase"))(view)
			}
			if rapid.Bool().Draw(t, "paused") {
				viewtest.Override(record.OverridePause, key, "")(view)
			}
		}
		m := makerOf(s, view, &reconcile.Report{})
		var shown []api.Task
		for i := range s.Groups[0].Tasks {
			shown = append(shown, m.tasks.task(&s.Groups[0].Tasks[i]))
		}
		g, _ := m.group(&s.Groups[0])
		sum := g.Waiting + g.Running + g.Starting + g.Stopping + g.Backoff + g.Unassigned + g.Paused + g.Done + g.Failed
		if sum != 6 || g.Tasks != 6 {
			t.Fatalf("%d in all states of %d tasks: %+v", sum, g.Tasks, g)
		}
		for _, task := range shown {
			if !slices.Contains(api.TaskStates(), task.State) {
				t.Fatalf("%s is in state %q", task.Key, task.State)
			}
		}
	})
}

// makerOf makes snapshots of a view.
func makerOf(s *settings.Settings, c *cluster.View, report *reconcile.Report) *maker {
	return newMaker(Input{Settings: s, Instance: s.Instance, Cluster: c, Report: report})
}
