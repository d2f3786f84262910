package replica

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/test/viewtest"
)

// StopStuck names the processes that may not be signalled, whichever of the two is known first, and only those of the
// stop that it is about.
func TestStopStuckNamesWhatMayNotBeSignalled(t *testing.T) {
	const plain = "does not stop since 2026-01-01T00:00:00Z; its key is not handed over while it runs"
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	stuck := func(r *problemRegistry, since time.Time) {
		r.stuck(api.Problem{Severity: api.SeverityError, Group: "g", Task: "g/t", Instance: "a"}, since)
	}
	named := plain + ": its processes [10 11] run as another user, and may not be signalled from here"
	for what, test := range map[string]struct {
		happens func(r *problemRegistry)
		want    string
	}{
		"nothing":      {func(r *problemRegistry) { stuck(r, since) }, plain},
		"known before": {func(r *problemRegistry) { r.unsignalled("g/t", []int{10, 11}); stuck(r, since) }, named},
		"known after":  {func(r *problemRegistry) { stuck(r, since); r.unsignalled("g/t", []int{10, 11}) }, named},
		"of another":   {func(r *problemRegistry) { stuck(r, since); r.unsignalled("g/u", []int{10, 11}) }, plain},
		"of a stop before": {func(r *problemRegistry) {
			r.unsignalled("g/t", []int{10, 11})
			r.clearTask(api.ProblemStopStuck, "g/t")
			stuck(r, since)
		}, plain},
	} {
		r := newProblemRegistry()
		test.happens(r)
		all := r.with(nil, time.Now())
		if len(all) != 1 || all[0].Reason != api.ProblemStopStuck || all[0].Message != test.want {
			t.Errorf("%s: %+v, want %q", what, all, test.want)
		}
	}
}

// Two replicas of one name read what the other says of both. It is shown once, and neither says it again.
func TestWhatIsReadIsNotSharedAgain(t *testing.T) {
	r := New(Config{Settings: viewtest.Settings(t), Metrics: metrics.New(false), Logger: logr.Discard()})
	v := viewtest.Cluster()
	v.Sessions[1].Member.Instance = r.Settings().Instance
	v.Sessions[1].Member.Problems = []record.Problem{
		{Reason: api.ProblemConfigInvalid, Severity: "error", Message: "read"},
		{Reason: api.ProblemClockSkew, Severity: "warning", Message: "read"},
	}
	r.publisher.problems.set(configInvalid(r.Settings().Instance, errors.New("found")))
	in := r.collect()
	in.Cluster, in.Report = v, &reconcile.Report{}
	shown := map[string]api.Problem{}
	for _, p := range r.publisher.snapshot(in, time.Now()).Status.Problems {
		shown[p.Reason] = p
	}
	if !strings.HasSuffix(shown[api.ProblemConfigInvalid].Message, "found") ||
		shown[api.ProblemClockSkew].Message != "read" {
		t.Errorf("shown is %+v", shown)
	}
	problems, _ := r.publisher.shared()
	for _, p := range problems {
		if p.Message == "read" {
			t.Errorf("%+v is shared again", p)
		}
	}
}

func TestProblemsBeforeTheStoreIsThere(t *testing.T) {
	r := New(Config{Settings: viewtest.Settings(t), Metrics: metrics.New(false), Logger: logr.Discard()})
	r.StoreFailed(errors.New("no route to host"))
	s := r.Board().Snapshot()
	if len(s.Status.Problems) != 1 || s.Status.Problems[0].Reason != api.ProblemStoreUnreachable ||
		s.Status.Problems[0].Message != "no route to host" {
		t.Errorf("%+v", s.Status.Problems)
	}
	if s.Status.Ready || s.Status.Store.Reachable || s.Status.Store.Error != "no route to host" || len(s.Tasks.All()) != 7 ||
		s.Status.Groups[1].Unassigned != 6 ||
		s.Tasks.All()[0].Reason != api.ProblemStoreUnreachable {
		t.Errorf("%+v", s.Status)
	}
}

func TestProblemsKeepTheirBeginning(t *testing.T) {
	b := newProblemRegistry()
	at := time.UnixMilli(1_000_000)
	slow := view.Finding{Problem: api.Problem{Reason: api.ProblemStoreSlow}, Lasting: 10 * time.Second}
	if got := b.with([]view.Finding{slow}, at); len(got) != 0 {
		t.Errorf("reported before it has lasted: %+v", got)
	}
	got := b.with([]view.Finding{slow}, at.Add(10*time.Second))
	if len(got) != 1 || !reflect.DeepEqual(got[0].Since, api.Millis(at.UnixMilli())) {
		t.Errorf("got %+v", got)
	}
	if got := b.with(nil, at.Add(11*time.Second)); len(got) != 0 {
		t.Errorf("it is gone: %+v", got)
	}
	if got := b.with([]view.Finding{slow}, at.Add(12*time.Second)); len(got) != 0 {
		t.Errorf("it begins again: %+v", got)
	}
}

func TestReloadProblems(t *testing.T) {
	s := viewtest.Settings(t)
	r := New(Config{Settings: s, Metrics: metrics.New(false), Logger: logr.Discard()})
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

// Each problem is one line when it comes and one when it goes, however often it is shown in between.
func TestProblemsAreLoggedOnce(t *testing.T) {
	var lines []string
	l := problemLog{log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	away := api.Problem{Reason: "StoreUnreachable", Severity: "error", Message: "not yet"}
	full := api.Problem{Reason: "NoCapacity", Severity: "error", Group: "g", Message: "3 tasks"}
	worse := full
	worse.Message = "4 tasks"
	failing := func(task, instance string) api.Problem {
		return api.Problem{
			Reason: "TaskFailing", Severity: "warning", Group: "g", Task: task, Instance: instance, Message: "m",
		}
	}
	mine, other := failing("g/k", "a"), failing("g/l", "b")
	skewed := api.Problem{Reason: api.ProblemClockSkew, Severity: "warning", Instance: "b", Message: "m"}
	const found = `"msg"="A problem was found" `
	for _, step := range []struct {
		name     string
		problems []api.Problem
		want     []string
	}{
		{"what is so from the start is no news", []api.Problem{away}, nil},
		{"nor is its end", nil, nil},
		{"a problem comes", []api.Problem{full, other}, []string{
			found + `"error"=null "reason"="NoCapacity" "group"="g" "severity"="error" "message"="3 tasks"`,
		}},
		{"and changes its words", []api.Problem{worse, other}, nil},
		{"another comes, and it goes", []api.Problem{mine, other}, []string{
			`"level"=0 ` + found +
				`"reason"="TaskFailing" "group"="g" "key"="g/k" "peer"="a" "severity"="warning" "message"="m"`,
			`"level"=0 "msg"="A problem is over" "reason"="NoCapacity" "group"="g"`,
		}},
		{"another says what is wrong with it", []api.Problem{mine, skewed}, nil},
		{"the store is away again", []api.Problem{mine, away}, []string{
			found + `"error"=null "reason"="StoreUnreachable" "severity"="error" "message"="not yet"`,
		}},
	} {
		lines = nil
		l.note(step.problems, "a")
		if !slices.Equal(lines, step.want) {
			t.Errorf("%s: logged was\n%q, want\n%q", step.name, lines, step.want)
		}
	}
}

// troubled is a store that has something to report of its database now and then.
type troubled struct {
	store.Store

	there atomic.Bool
}

func (s *troubled) Problems() []store.Problem {
	if !s.there.Load() {
		return nil
	}
	return []store.Problem{{Reason: api.ProblemStoreNotDurable, Message: "so it is"}}
}

// A store and the API write the names of problems each for itself, since neither imports the other.
func TestProblemsOfStoresHaveTheNamesOfTheAPI(t *testing.T) {
	for of, want := range map[string]string{
		mongo.ReasonStandalone: api.ProblemStoreStandalone,
		mongo.ReasonArbiter:    api.ProblemStoreArbiter,
		mongo.ReasonSharding:   api.ProblemStoreSharding,

		postgres.ReasonNotDurable:    api.ProblemStoreNotDurable,
		postgres.ReasonNotReplicated: api.ProblemStoreNotReplicated,
		postgres.ReasonPolled:        api.ProblemStorePolled,

		etcd.ReasonNotCompacted: api.ProblemStoreNotCompacted,
		etcd.ReasonNearlyFull:   api.ProblemStoreNearlyFull,
	} {
		if of != want || !slices.Contains(api.ProblemReasons(), want) {
			t.Errorf("%s of the store is %s in the API", of, want)
		}
	}
}
