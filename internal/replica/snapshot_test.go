package replica

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// sample is the configuration of these tests.
const sample = `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
groups:
  - name: g
    cap: 2
    tasks: [{name: "t{1..6}", exec: {command: [date]}}]
  - name: free
    tasks: [{name: u, exec: {command: [date]}}]
`

func settings(t *testing.T) *config.Settings {
	t.Helper()
	return settingsOf(t, sample)
}

func settingsOf(t *testing.T, text string) *config.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load([]string{path},
		config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// session is one of a view, with a cap of 2 in group g.
func session(id, instance string, state record.SessionState) cluster.Session {
	return cluster.Session{
		ID: id, State: state, Known: true,
		Member: elect.Member{
			Session: id, Instance: instance, Caps: map[string]int{"g": 2}, ListHashes: map[string]string{"g": "1"},
			Opened: 1000,
		},
	}
}

func lockOf(key elect.Key, owner, state string) *record.Lock {
	return &record.Lock{
		Key: key, Rev: 8, Token: 7, Session: owner, Instance: "i" + owner, Since: 2000, Reason: record.ReasonCreated,
		Status: elect.TaskStatus{State: state, Since: 3000},
	}
}

func viewOf(locks ...*record.Lock) *cluster.View {
	v := &cluster.View{
		Session: "A", Instance: "a", Open: true, Loaded: true, Locks: map[elect.Key]*record.Lock{},
		Held: map[elect.Key]cluster.Held{},
		Sessions: []cluster.Session{
			session("A", "a", record.Live), session("B", "b", record.Live), session("C", "c", record.Dead),
		},
	}
	for _, l := range locks {
		v.Locks[l.Key] = l
	}
	return v
}

func TestTaskStates(t *testing.T) {
	const key = elect.Key("g/t1")
	failed, done := &elect.RunOutcome{Error: "exit status 3"}, &elect.RunOutcome{Succeeded: true}
	suspended := func(o *elect.RunOutcome) *record.Lock {
		l := lockOf(key, "", "failed")
		l.Suspended, l.Status.Outcome = true, o
		return l
	}
	given := lockOf(key, "", "")
	given.From, given.Reason = "b", record.ReasonDrain
	for name, test := range map[string]struct {
		lock    *record.Lock
		change  func(*cluster.View)
		reason  string // of the plan, why the key is unassigned
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
			lock: lockOf(key, "C", "running"), want: api.Unassigned, shown: "Orphaned", message: "iC is gone",
		},
		"owner unknown": {lock: lockOf(key, "Z", "running"), want: api.Unassigned, shown: "Orphaned"},
		"running": {
			lock: lockOf(key, "B", "running"), want: api.Running, shown: "Created", owner: "b",
		},
		"waiting":              {lock: lockOf(key, "B", "waiting"), want: api.Waiting, owner: "b"},
		"backoff":              {lock: lockOf(key, "B", "backoff"), want: api.Backoff, owner: "b"},
		"claimed, no word yet": {lock: lockOf(key, "B", ""), want: api.Starting, owner: "b"},
		"malformed":            {lock: lockOf(key, "B", "unassigned"), want: api.Starting, owner: "b"},
		"stopping here": {
			lock: lockOf(key, "A", "running"), change: hold(key, cluster.PhaseStopping), want: api.Stopping,
			owner: "a",
		},
		"releasing here": {
			lock: lockOf(key, "A", "running"), change: hold(key, cluster.PhaseReleasing), want: api.Stopping,
			owner: "a",
		},
		"running here": {
			lock: lockOf(key, "A", "running"), change: hold(key, cluster.PhaseRunning), want: api.Running,
			owner: "a",
		},
		"stopped here at the end of the lease": {
			lock: lockOf(key, "A", "running"), change: hold(key, cluster.PhaseWaiting), want: api.Unassigned,
			shown: api.ProblemStoreUnreachable, message: "a stopped it",
		},
		"claimed here again": {
			lock: lockOf(key, "A", "running"), change: hold(key, cluster.PhaseClaiming), want: api.Starting,
			owner: "a",
		},
		"done":                      {lock: suspended(done), want: api.Done},
		"failed":                    {lock: suspended(failed), want: api.Failed},
		"suspended without outcome": {lock: suspended(nil), want: api.Unassigned},
		"paused": {
			lock: given, change: override(record.OverridePause, key, ""), want: api.Paused, shown: "Paused",
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
			lock: lockOf(key, "C", "running"), change: func(v *cluster.View) {
				v.Sessions[2].Cause = "no heartbeat for 20 s"
			}, want: api.Unassigned, shown: "Orphaned", message: "iC died: no heartbeat for 20 s",
		},
		"owner dead, an endpoint may go on": {
			lock: lockOf(key, "C", "running"), change: func(v *cluster.View) {
				v.Sessions[2].Remote = map[elect.Key]int64{key: 1000}
			}, want: api.Unassigned, shown: "Orphaned", message: "waits for the remote lease",
		},
		"to be paused, still runs": {
			lock: lockOf(key, "B", "running"), change: override(record.OverridePause, key, ""), want: api.Running,
			owner: "b",
		},
		"pinned to no instance": {
			change: override(record.OverridePin, key, "x"), reason: balancer.PinUnavailable, want: api.Unassigned,
			shown: "PinUnavailable", message: "as the plan says",
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewOf()
			if test.lock != nil {
				view.Locks[key] = test.lock
			}
			if test.change != nil {
				test.change(view)
			}
			report := &balancer.Report{}
			if test.reason != "" {
				report.Unassigned = []balancer.Refusal{{Key: key, Reason: test.reason, Message: "as the plan says"}}
			}
			s := settings(t)
			got := gather(s, view, report).keys.task(&s.Groups[0].Tasks[0])
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

func override(kind record.OverrideKind, key elect.Key, to string) func(*cluster.View) {
	return func(v *cluster.View) {
		v.Overrides = append(v.Overrides, record.Override{
			Kind: kind, Scope: record.ScopeTask, Name: string(key), To: to, By: "ann", Reason: "test", At: 4000,
		})
	}
}

// TestOverridesAreListed: what still counts is in the list of overrides, also of what is not declared.
func TestOverridesAreListed(t *testing.T) {
	view := viewOf(lockOf("g/1", "A", "running"))
	view.Overrides = append(view.Overrides, []record.Override{
		{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "old/task", At: 4000, Until: 9000},
		{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "gone"},
		{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideResume, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideRebalance, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideRestart, Scope: record.ScopeTask, Name: "g/1", Token: 6}, // it has restarted
		{Kind: record.OverrideMove, Scope: record.ScopeTask, Name: "g/1", Token: 7, To: "b"},
	}...)
	r := New(Config{Settings: settings(t), Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	s := r.publisher.snapshot(gather(r.Settings(), view, nil), &r.problems, time.Now())
	var got []string
	for _, o := range s.Overrides {
		got = append(got, o.Kind+" "+o.Name)
	}
	if want := []string{"drain gone", "move g/1", "pause g", "pause old/task"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if o := s.Overrides[3]; o.At != api.Millis(4000) || o.Until != api.Millis(9000) {
		t.Errorf("%+v", o)
	}
}

// TestCountsSumUp: whatever the view holds, a group's counts add up to its tasks, and so do the tasks that are shown.
func TestCountsSumUp(t *testing.T) {
	s := settings(t)
	rapid.Check(t, func(t *rapid.T) {
		view := viewOf()
		for i := range s.Groups[0].Tasks {
			key := s.Groups[0].Tasks[i].Key()
			if rapid.Bool().Draw(t, "locked") {
				l := lockOf(key, rapid.SampledFrom([]string{"", "A", "B", "C", "Z"}).Draw(t, "owner"),
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
				override(record.OverridePause, key, "")(view)
			}
		}
		m := gather(s, view, &balancer.Report{})
		var shown []api.Task
		for i := range s.Groups[0].Tasks {
			shown = append(shown, m.keys.task(&s.Groups[0].Tasks[i]))
		}
		g := m.group(s.Groups[0], shown)
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

func TestRoom(t *testing.T) {
	s := settings(t)
	for name, test := range map[string]struct {
		change             func(*cluster.View)
		capacity, headroom int
	}{
		"two with a cap of two": {func(*cluster.View) {}, 4, 2 - 6},
		"one drains":            {func(v *cluster.View) { v.Sessions[1].State = record.Draining }, 2, 0 - 6},
		"one is not known yet":  {func(v *cluster.View) { v.Sessions[1].Known = false }, 2, 0 - 6},
		"one is filled by others": {func(v *cluster.View) {
			v.Sessions[1].Member.MaxTasks = 2
			v.Locks["free/u"] = lockOf("free/u", "B", "running")
		}, 3, 1 - 6},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewOf()
			test.change(view)
			m := gather(s, view, nil)
			var shown []api.Task
			for i := range s.Groups[0].Tasks {
				shown = append(shown, m.keys.task(&s.Groups[0].Tasks[i]))
			}
			g := m.group(s.Groups[0], shown)
			if g.Capacity == nil || *g.Capacity != test.capacity || g.Headroom == nil || *g.Headroom != test.headroom {
				t.Errorf("got %+v", g)
			}
			if free := m.group(s.Groups[1], nil); free.Capacity != nil || free.Headroom != nil {
				t.Errorf("a group without cap has no capacity: %+v", free)
			}
		})
	}
}

// TestClients holds that a session that declares no groups is no instance and offers no capacity, while its locks show.
func TestClients(t *testing.T) {
	view := viewOf(lockOf("locks/backup", "B", "running"))
	view.Sessions[1].Member.ListHashes, view.Sessions[1].Member.Caps = nil, nil
	s := settings(t)
	m := gather(s, view, nil)
	for _, in := range m.members.instances(time.Now()) {
		if in.Session == "B" {
			t.Errorf("a client is shown among the instances: %+v", in)
		}
	}
	if g := m.group(s.Groups[0], nil); g.Capacity == nil || *g.Capacity != 2 {
		t.Errorf("capacity of %+v: want that of the one replica", g)
	}
	if locks := m.keys.locks(); len(locks) != 1 || locks[0].Instance != "iB" {
		t.Errorf("locks %+v", locks)
	}
}

func TestInstances(t *testing.T) {
	view := viewOf(
		lockOf("g/t1", "A", "running"), lockOf("g/t2", "A", "running"), lockOf("free/u", "A", "running"),
		lockOf("g/t3", "", ""),
	)
	m := gather(settings(t), view, nil)
	m.members.ages = map[string]time.Duration{"A": 1500 * time.Millisecond, "C": time.Minute}
	list := m.members.instances(time.Now())
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	if a := list[0]; a.Name != "a" || a.State != api.Live || a.HeartbeatAgeSeconds != 1.5 || a.Owned["g"] != 2 ||
		a.Owned["free"] != 1 {
		t.Errorf("%+v", a)
	}
	if c := list[2]; c.State != api.Dead {
		t.Errorf("%+v", c)
	}
	m.members.ages["C"] = deadShown + time.Second
	if list := m.members.instances(time.Now()); len(list) != 2 {
		t.Errorf("dead sessions are shown for a while only: %+v", list)
	}
}

// problemsOf are the reasons that a snapshot of the view shows, after they have lasted as long as they must.
func problemsOf(
	r *Replica, view *cluster.View, report *balancer.Report, ages map[string]time.Duration,
) map[string]api.Problem {
	m := gather(r.Settings(), view, report)
	m.members.ages, m.heartbeat = ages, r.heartbeats.get()
	now := time.Now()
	r.publisher.snapshot(m, &r.problems, now)
	found := map[string]api.Problem{}
	for _, p := range r.publisher.snapshot(m, &r.problems, now.Add(time.Minute)).Status.Problems {
		found[p.Reason] = p
	}
	return found
}

func TestProblems(t *testing.T) {
	running := func() *cluster.View {
		v := viewOf(lockOf("free/u", "A", "running"))
		v.Sessions[0].Member.Caps = map[string]int{"g": 20}
		v.Sessions[1].Member.Caps = map[string]int{"g": 20}
		for _, name := range []elect.Key{"g/t1", "g/t2", "g/t3", "g/t4", "g/t5", "g/t6"} {
			v.Locks[name] = lockOf(name, "A", "running")
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
	l := lockOf("g/t1", "", "failed")
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
	silent.Sessions = append(silent.Sessions, session("D", "d", record.Live))
	silent.Sessions[3].Age = 16 * time.Second
	silent.Locks["g/t6"] = lockOf("g/t6", "D", "running")
	stuck := running()
	stuck.Sessions[1].Member.Problems = []record.Problem{
		{Reason: api.ProblemStopStuck, Severity: "error", Message: "does not stop", Task: "g/t1", Since: 1000},
		{Reason: api.ProblemNoCapacity, Severity: "error", Message: "which every replica finds itself"},
	}
	stuck.Sessions = append(stuck.Sessions, session("D", "d", record.Dead))
	stuck.Sessions[3].Member.Problems = []record.Problem{
		{Reason: api.ProblemClockSkew, Severity: "warning", Message: "of the dead"},
	}
	empty := viewOf()
	empty.Loaded, empty.Sessions = false, nil
	empty.Session = ""

	for name, test := range map[string]struct {
		view   *cluster.View
		report balancer.Report
		failed error
		took   time.Duration
		want   []string // reasons
		say    string   // in the message of the first
	}{
		"none":             {view: running()},
		"nothing read yet": {view: empty},
		"no capacity": {view: short, report: balancer.Report{Unassigned: []balancer.Refusal{
			{Key: "g/t5", Reason: balancer.NoCapacity}, {Key: "g/t6", Reason: balancer.NoCapacity},
		}}, want: []string{api.ProblemNoCapacity}, say: "2 of 6 tasks have no owner: the capacity is 6"},
		"no instance": {view: running(), report: balancer.Report{Unassigned: []balancer.Refusal{
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
			view: running(), report: balancer.Report{Differs: map[string][]string{"g": {"b", "d"}}},
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
			s := settings(t)
			s.Groups[0].Selector = map[string]string{"zone": "b", "pool": "gpu"}
			for i := range test.view.Sessions {
				test.view.Sessions[i].Member.Labels = s.Groups[0].Selector
			}
			r := New(Config{Settings: s, Metrics: status.NewMetrics(false), Logger: logr.Discard()})
			r.problems.clear(api.ProblemStoreUnreachable) // as once a store is open
			r.heartbeats.note(test.took, test.failed)
			found := problemsOf(
				r, test.view, &test.report, map[string]time.Duration{"A": time.Second, "B": time.Second},
			)
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

// Two replicas of one name read what the other says of both. It is shown once, and neither says it again.
func TestWhatIsReadIsNotSharedAgain(t *testing.T) {
	r := New(Config{Settings: settings(t), Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	v := viewOf()
	v.Sessions[1].Member.Instance = r.Settings().Instance
	v.Sessions[1].Member.Problems = []record.Problem{
		{Reason: api.ProblemConfigInvalid, Severity: "error", Message: "read"},
		{Reason: api.ProblemClockSkew, Severity: "warning", Message: "read"},
	}
	r.problems.set(configInvalid(r.Settings().Instance, errors.New("found")))
	shown := problemsOf(r, v, &balancer.Report{}, nil)
	if !strings.HasSuffix(shown[api.ProblemConfigInvalid].Message, "found") ||
		shown[api.ProblemClockSkew].Message != "read" {
		t.Errorf("shown is %+v", shown)
	}
	for _, p := range shared(r.publisher.problems()) {
		if p.Message == "read" {
			t.Errorf("%+v is shared again", p)
		}
	}
}

func TestProblemsBeforeTheStoreIsThere(t *testing.T) {
	r := New(Config{Settings: settings(t), Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	r.StoreFailed(errors.New("no route to host"))
	s := r.Board().Snapshot()
	if len(s.Status.Problems) != 1 || s.Status.Problems[0].Reason != api.ProblemStoreUnreachable ||
		s.Status.Problems[0].Message != "no route to host" {
		t.Errorf("%+v", s.Status.Problems)
	}
	if s.Status.Ready || s.Status.Store.Reachable || s.Status.Store.Error != "no route to host" || len(s.Tasks) != 7 ||
		s.Status.Groups[1].Unassigned != 6 ||
		s.Tasks[0].Reason != api.ProblemStoreUnreachable {
		t.Errorf("%+v", s.Status)
	}
}

func TestProblemsKeepTheirBeginning(t *testing.T) {
	b := newProblemRegistry()
	at := time.UnixMilli(1_000_000)
	slow := finding{Problem: api.Problem{Reason: api.ProblemStoreSlow}, lasting: 10 * time.Second}
	if got := b.with([]finding{slow}, at); len(got) != 0 {
		t.Errorf("reported before it has lasted: %+v", got)
	}
	got := b.with([]finding{slow}, at.Add(10*time.Second))
	if len(got) != 1 || !reflect.DeepEqual(got[0].Since, api.Millis(at.UnixMilli())) {
		t.Errorf("got %+v", got)
	}
	if got := b.with(nil, at.Add(11*time.Second)); len(got) != 0 {
		t.Errorf("it is gone: %+v", got)
	}
	if got := b.with([]finding{slow}, at.Add(12*time.Second)); len(got) != 0 {
		t.Errorf("it begins again: %+v", got)
	}
}

func TestReloadProblems(t *testing.T) {
	s := settings(t)
	r := New(Config{Settings: s, Metrics: status.NewMetrics(false), Logger: logr.Discard()})
	has := func(reason, text string) bool {
		return slices.ContainsFunc(r.Board().Snapshot().Status.Problems, func(p api.Problem) bool {
			return p.Reason == reason && p.Instance == "a" && strings.Contains(p.Message, text)
		})
	}
	r.Refuse(decode.Errors{{File: "x.yaml", Line: 3, Message: "is bad"}, {File: "x.yaml", Line: 4, Message: "too"}})
	if !has(api.ProblemConfigInvalid, "x.yaml:3: is bad (and 1 more)") {
		t.Errorf("%+v", r.Board().Snapshot().Status.Problems)
	}
	r.Apply(s, []string{"zone", "lease.duration"})
	if has(api.ProblemConfigInvalid, "") || !has(api.ProblemRestartRequired, "zone, lease.duration") {
		t.Errorf("%+v", r.Board().Snapshot().Status.Problems)
	}
	r.Apply(s, nil)
	if has(api.ProblemRestartRequired, "") {
		t.Error("it is as it was: no restart is needed")
	}
}
