package view

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/viewtest"
)

// A run that goes on and does not do its work is a problem after ten seconds, not at the first failure.
func TestTroubleOfARunThatGoesOn(t *testing.T) {
	now := time.Unix(1000, 0)
	task := &api.Task{State: api.Running, LastError: "kafka:orders: no such topic"}
	for _, test := range []struct {
		state api.TaskState
		since time.Duration
		want  bool
	}{
		{api.Running, 9 * time.Second, false},
		{api.Running, 10 * time.Second, true},
		{api.Running, -365 * 24 * time.Hour, true}, // by a clock that was a year ahead
		{api.Running, 0, false},                    // an old error, and none now
		{api.Stopping, time.Minute, false},
	} {
		said := record.TaskStatus{}
		if test.since != 0 {
			said.TroubleSince = now.Add(-test.since).UnixMilli()
		}
		task.State = test.state
		got := failing(task, said, now)
		if (got != "") != test.want || test.want && !strings.Contains(got, "no such topic") {
			t.Errorf("%s for %s: %q, want one: %v", test.state, test.since, got, test.want)
		}
	}
}

// problemsOf are the problems of an input by reason, however long they must last.
func problemsOf(in Input) map[string]api.Problem {
	found := map[string]api.Problem{}
	for _, f := range Make(in, nil, time.Now()).Findings {
		found[f.Problem.Reason] = f.Problem
	}
	for _, p := range SharedProblems(in.Cluster) {
		found[p.Reason] = p
	}
	return found
}

func TestProblems(t *testing.T) {
	running := func() *cluster.View {
		v := viewtest.Cluster(viewtest.Lock("free/u", "A", "running"))
		v.Sessions[0].Member.Caps = map[string]int{"g": 20}
		v.Sessions[1].Member.Caps = map[string]int{"g": 20}
		for _, name := range []elect.Key{"g/t1", "g/t2", "g/t3", "g/t4", "g/t5", "g/t6"} {
			v.Locks[name] = viewtest.Lock(name, "A", "running")
		}
		return v
	}
	short := running()
	short.Sessions[0].Member.Caps["g"], short.Sessions[1].Member.Caps["g"] = 3, 3
	forgot := running()
	forgot.Forgot = true
	stale := running()
	stale.Stale = true
	twins := running()
	twins.Sessions[1].Member.Instance = "a"
	looping, cron, young, ended := running(), running(), running(), running()
	set := func(v *cluster.View, state string, restarts int, lastError string) {
		l := v.Locks["g/t1"]
		l.Status.State, l.Status.Restarts, l.Status.LastError = state, restarts, lastError
	}
	set(looping, "backoff", 3, "exit status 3")
	set(young, "backoff", 2, "exit status 3")
	set(cron, "waiting", 0, "exit status 4")
	l := viewtest.Lock("g/t1", "", "failed")
	l.Suspended, l.Status.Outcome, l.Status.Restarts, l.Status.LastError = true, &elect.RunOutcome{}, 5, "exit status 5"
	ended.Locks["g/t1"] = l
	client := running()
	client.Sessions = append(
		client.Sessions, cluster.Session{ID: "D", State: record.Live, Known: true, Member: elect.Member{Instance: "a"}},
	)
	aheadBy := func(d time.Duration) *cluster.View {
		v := running()
		v.Ahead = d
		return v
	}
	silent := running()
	silent.Sessions = append(silent.Sessions, viewtest.Session("D", "d", record.Live))
	silent.Sessions[3].Age = 16 * time.Second
	silent.Locks["g/t6"] = viewtest.Lock("g/t6", "D", "running")
	stuck := running()
	stuck.Sessions[1].Member.Problems = []record.Problem{
		{Reason: api.ProblemStopStuck, Severity: "error", Message: "does not stop", Task: "g/t1", Since: 1000},
		{Reason: api.ProblemNoCapacity, Severity: "error", Message: "which every replica finds itself"},
	}
	stuck.Sessions = append(stuck.Sessions, viewtest.Session("D", "d", record.Dead))
	stuck.Sessions[3].Member.Problems = []record.Problem{
		{Reason: api.ProblemClockSkew, Severity: "warning", Message: "of the dead"},
	}
	empty := viewtest.Cluster()
	empty.Loaded, empty.Sessions = false, nil
	empty.Session = ""

	for name, test := range map[string]struct {
		view   *cluster.View
		report reconcile.Report
		failed error
		took   time.Duration
		want   []string // reasons
		say    string   // in the message of the first
	}{
		"none":             {view: running()},
		"nothing read yet": {view: empty},
		"no capacity": {view: short, report: reconcile.Report{Unassigned: []reconcile.Refusal{
			{Key: "g/t5", Reason: balancer.NoCapacity}, {Key: "g/t6", Reason: balancer.NoCapacity},
		}}, want: []string{api.ProblemNoCapacity}, say: "2 of 6 tasks have no owner: the capacity is 6"},
		"no instance": {view: running(), report: reconcile.Report{Unassigned: []reconcile.Refusal{
			{Key: "g/t5", Reason: balancer.NoInstance}, {Key: "g/t6", Reason: balancer.NoInstance},
		}}, want: []string{api.ProblemNoInstance}, say: "2 of 6 tasks have no owner: no live instance has the " +
			"labels pool=gpu,zone=b"},
		"a client of the same name": {view: client},
		"no headroom": {
			view: short, want: []string{api.ProblemNoHeadroom}, say: "3 tasks would have no owner",
		},
		"store unreachable": {
			view: stale, failed: errors.New("dial: refused"), want: []string{api.ProblemStoreUnreachable},
			say: "heartbeats fail: dial: refused",
		},
		"store not read": {
			view: stale, want: []string{api.ProblemStoreUnreachable}, say: "does not answer",
		},
		"store slow": {
			view: running(), took: 1100 * time.Millisecond, want: []string{api.ProblemStoreSlow}, say: "1.1s",
		},
		"store forgot": {view: forgot, want: []string{api.ProblemStoreForgot}, say: "below a revision"},
		"crash loop": {
			view: looping, want: []string{api.ProblemTaskFailing}, say: "backoff after 3 restarts: exit status 3",
		},
		"a few restarts": {view: young},
		"failed for good": {view: ended, want: []string{
			api.ProblemTaskFailing,
		}, say: "failed after 5 restarts: exit status 5"},
		"a run failed": {
			view: cron, want: []string{api.ProblemTaskFailing}, say: "its last run failed: exit status 4",
		},
		"lists differ": {
			view: running(), report: reconcile.Report{Differs: map[string][]string{"g": {"b", "d"}}},
			want: []string{api.ProblemConfigDiffers}, say: "that of b, d at the same revision 0",
		},
		"a clock ahead": {
			view: aheadBy(3 * time.Second), want: []string{api.ProblemClockSkew}, say: "3s ahead of",
		},
		"a clock behind": {
			view: aheadBy(-time.Minute), want: []string{api.ProblemClockSkew}, say: "1m0s behind",
		},
		"clocks nearly as one": {view: aheadBy(time.Second)},
		"a silent one": {
			view: silent, want: []string{api.ProblemInstanceSilent}, say: "others take over its task",
		},
		"what another says of itself": {
			view: stuck, want: []string{api.ProblemStopStuck}, say: "does not stop",
		},
		"one name twice": {
			view: twins, want: []string{api.ProblemDuplicateInstance}, say: "2 live replicas are called a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.Settings(t)
			s.Groups[0].Selector = map[string]string{"zone": "b", "pool": "gpu"}
			for i := range test.view.Sessions {
				test.view.Sessions[i].Member.Labels = s.Groups[0].Selector
			}
			found := problemsOf(Input{
				Settings: s, Instance: s.Instance, Cluster: test.view, Report: &test.report,
				Ages:      map[string]time.Duration{"A": time.Second, "B": time.Second},
				Heartbeat: Heartbeat{Took: test.took, Err: test.failed},
			})
			var reasons []string
			for reason := range found {
				reasons = append(reasons, reason)
			}
			if !reflect.DeepEqual(reasons, test.want) {
				t.Fatalf("got %+v, want %v", found, test.want)
			}
			if len(test.want) > 0 && !strings.Contains(found[test.want[0]].Message, test.say) {
				t.Errorf("message %q, want %q in it", found[test.want[0]].Message, test.say)
			}
		})
	}
}
