package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// state is a cluster of three instances with a cap of 3 in group g, of which c is dead. g/1 and g/2 run on a, g/3, g/4
// and g/5 on b. g/6 is done, and g/tick waits for a tick on a.
func state(standing ...record.Override) operate.State {
	session := func(id string, state record.SessionState) cluster.Session {
		return cluster.Session{ID: strings.ToUpper(id), State: state, Known: true, Member: elect.Member{
			Session: strings.ToUpper(id), Instance: id, Zone: "z" + id, Caps: map[string]int{"g": 3},
			ListHashes: map[string]string{"g": "1", "gpu": "1"},
		}}
	}
	v := &cluster.View{
		Loaded: true, Open: true, Now: 50_000, Overrides: standing, Locks: map[elect.Key]*record.Lock{},
		Sessions: []cluster.Session{session("a", record.Live), session("b", record.Live), session("c", record.Dead)},
	}
	lock := func(key elect.Key, owner, state string) *record.Lock {
		l := &record.Lock{Key: key, Rev: 8, Token: 7, Session: owner, Status: elect.TaskStatus{State: state}}
		v.Locks[key] = l
		return l
	}
	lock("g/1", "A", "running")
	lock("g/2", "A", "backoff")
	for _, key := range []elect.Key{"g/3", "g/4", "g/5"} {
		lock(key, "B", "running")
	}
	done := lock("g/6", "", "done")
	done.Suspended, done.Status.Outcome = true, &elect.RunOutcome{Succeeded: true, Token: 7}
	lock("gpu/tick", "A", "waiting")
	lock("g/orphan", "C", "running")
	return operate.State{
		View: v,
		Declared: reconcile.Declared{Groups: []reconcile.DeclaredGroup{
			{Name: "g", Hash: "1", Keys: keys("g/1", "g/2", "g/3", "g/4", "g/5", "g/6", "g/orphan")},
			{Name: "gpu", Hash: "1", Selector: map[string]string{"pool": "gpu"}, Keys: keys("gpu/tick")},
		}},
		Ticks: func(key elect.Key) bool { return key == "gpu/tick" },
	}
}

func keys(names ...elect.Key) []reconcile.DeclaredKey {
	var list []reconcile.DeclaredKey
	for _, name := range names {
		list = append(list, reconcile.DeclaredKey{Key: name})
	}
	return list
}

func standing(
	kind record.OverrideKind, scope record.Scope, name string, change ...func(*record.Override),
) record.Override {
	o := record.Override{Kind: kind, Scope: scope, Name: name, By: "ann", Reason: "test", Rev: 5}
	for _, c := range change {
		c(&o)
	}
	return o
}

// requested is a request of a task that has had no effect yet: its token is still that of the lock.
func requested(kind record.OverrideKind, name, to string) record.Override {
	return standing(kind, record.ScopeTask, name, func(o *record.Override) { o.To, o.Token = to, 7 })
}

func task(verb api.Verb, names ...string) operate.Request {
	return operate.Request{Verb: verb, Scope: record.ScopeTask, Names: names, By: "bob"}
}

func instance(verb api.Verb, name string) operate.Request {
	return operate.Request{Verb: verb, Scope: record.ScopeInstance, Names: []string{name}, By: "bob"}
}

func to(r operate.Request, to string, strict bool) operate.Request {
	r.To, r.Strict = to, strict
	return r
}

// within is a request for a while.
func within(r operate.Request, d time.Duration) operate.Request {
	r.For = d
	return r
}

// identified has an id of its own.
func identified(r operate.Request) operate.Request {
	r.ID = "1"
	return r
}

// until has an override end by itself.
func until(ms int64) func(*record.Override) { return func(o *record.Override) { o.Until = ms } }

func TestDecide(t *testing.T) {
	pausedTask := standing(record.OverridePause, record.ScopeTask, "g/1")
	pausedGroup := standing(record.OverridePause, record.ScopeGroup, "g")
	drained := standing(record.OverrideDrain, record.ScopeInstance, "gone")
	pinned := standing(
		record.OverridePin, record.ScopeTask, "g/3", func(o *record.Override) { o.To, o.Strict = "b", true },
	)
	for name, test := range map[string]struct {
		request  operate.Request
		standing []record.Override
		want     string // what is put, deleted, unchanged or refused
	}{
		"drain":           {request: instance(api.Drain, "a"), want: "put drain/instance/a"},
		"drain of no one": {request: instance(api.Drain, "x"), want: "NotFound"},
		"drain twice": {
			request: instance(api.Drain, "gone"), standing: []record.Override{drained}, want: "unchanged gone",
		},
		"undrain of who left": {
			request: instance(api.Undrain, "gone"), standing: []record.Override{drained},
			want: "delete drain/instance/gone",
		},
		"undrain of who is not": {request: instance(api.Undrain, "a"), want: "unchanged a"},
		"cordon":                {request: instance(api.Cordon, "b"), want: "put cordon/instance/b"},
		"pause": {
			request: task(api.Pause, "g/1", "g/2"), want: "put pause/task/g/1 put pause/task/g/2",
		},
		"pause for a while": {request: within(task(api.Pause, "g/1"), time.Hour), want: "put pause/task/g/1"},
		"pause for a while what is paused": {
			request: within(task(api.Pause, "g/1"), time.Hour), standing: []record.Override{pausedTask},
			want: "put pause/task/g/1",
		},
		"pause what is paused for a while": {
			request:  task(api.Pause, "g/1"),
			standing: []record.Override{standing(record.OverridePause, record.ScopeTask, "g/1", until(9))},
			want:     "put pause/task/g/1",
		},
		"pause for a while, sent twice": {
			request: within(identified(task(api.Pause, "g/1")), time.Hour), want: "unchanged g/1",
			standing: []record.Override{standing(record.OverridePause, record.ScopeTask, "g/1", until(9),
				func(o *record.Override) { o.Request = "1" })},
		},
		"pause of nothing": {
			request: task(api.Pause, "g/x", "g/2"), want: "put pause/task/g/2 NotFound",
		},
		"pause of a group": {
			request: operate.Request{Verb: api.Pause, Scope: record.ScopeGroup, Names: []string{"g"}},
			want:    "put pause/group/g",
		},
		//nolint:dupword // one for each
		"pause without a group": {request: task(api.Pause, "one", ""), want: "NotFound NotFound"},
		"pause of no group": {
			request: operate.Request{Verb: api.Pause, Scope: record.ScopeGroup, Names: []string{"x"}},
			want:    "NotFound",
		},
		"resume": {
			request: task(api.Resume, "g/1"), standing: []record.Override{pausedTask},
			want: "put resume/task/g/1 delete pause/task/g/1",
		},
		"resume of what is not paused": {request: task(api.Resume, "g/2"), want: "unchanged g/2"},
		"resume of one of a group": {
			request: task(api.Resume, "g/2"), standing: []record.Override{pausedGroup}, want: "Paused",
		},
		"resume of a group that is gone": {
			request:  operate.Request{Verb: api.Resume, Scope: record.ScopeGroup, Names: []string{"old"}},
			standing: []record.Override{standing(record.OverridePause, record.ScopeGroup, "old")},
			want:     "put resume/group/old delete pause/group/old",
		},
		"unpin of a task that is gone": {
			request:  task(api.Unpin, "g/old"),
			standing: []record.Override{standing(record.OverridePin, record.ScopeTask, "g/old")},
			want:     "delete pin/task/g/old",
		},
		"unpin of no task": {request: task(api.Unpin, "g/old"), want: "NotFound"},
		"restart": {
			request: task(api.Restart, "g/1", "g/2"), want: "put restart/task/g/1@7 put restart/task/g/2@7",
		},
		"restart of what is done": {request: task(api.Restart, "g/6"), want: "NotRunning"},
		"restart of an orphan":    {request: task(api.Restart, "g/orphan"), want: "NotRunning"},
		"restart between ticks":   {request: task(api.Restart, "gpu/tick"), want: "NotRunning"},
		"rerun":                   {request: task(api.Rerun, "g/6"), want: "put rerun/task/g/6@7"},
		"rerun of what runs":      {request: task(api.Rerun, "g/1"), want: "NotEnded"},
		"trigger": {
			request: task(api.Trigger, "gpu/tick"), want: "put trigger/task/gpu/tick",
		},
		"trigger without ticks": {request: task(api.Trigger, "g/1"), want: "NoTicks"},
		"trigger of what is paused": {
			request:  task(api.Trigger, "gpu/tick"),
			standing: []record.Override{standing(record.OverridePause, record.ScopeGroup, "gpu")}, want: "Paused",
		},
		"pin": {
			request: to(task(api.Pin, "g/1"), "web-*", false), want: "put pin/task/g/1",
		},
		"pin again elsewhere": {
			request: to(task(api.Pin, "g/3"), "a", true), standing: []record.Override{pinned},
			want: "put pin/task/g/3",
		},
		"pin again": {
			request: to(task(api.Pin, "g/3"), "b", true), standing: []record.Override{pinned},
			want: "unchanged g/3",
		},
		"unpin": {
			request: task(api.Unpin, "g/3"), standing: []record.Override{pinned}, want: "delete pin/task/g/3",
		},
		"move": {
			request: to(task(api.Move, "g/3"), "a", false), want: "put move/task/g/3@7",
		},
		"move again": {
			request: to(task(api.Move, "g/3"), "a", false), want: "unchanged g/3",
			standing: []record.Override{requested(record.OverrideMove, "g/3", "a")},
		},
		"move to where it is": {request: to(task(api.Move, "g/1"), "a", false), want: "unchanged g/1"},
		"move back before it has moved": {
			request: to(task(api.Move, "g/1"), "a", false), want: "put move/task/g/1@7",
			standing: []record.Override{requested(record.OverrideMove, "g/1", "b")},
		},
		"restart again before it has restarted": {
			request: task(api.Restart, "g/1"), want: "unchanged g/1",
			standing: []record.Override{requested(record.OverrideRestart, "g/1", "")},
		},
		"restart again": {
			request: task(api.Restart, "g/1"), want: "put restart/task/g/1@7",
			standing: []record.Override{standing(record.OverrideRestart, record.ScopeTask, "g/1")},
		},
		"move beyond the cap": {request: to(task(api.Move, "g/1"), "b", false), want: "NoCapacity"},
		"moves beyond the cap together": {
			request: to(task(api.Move, "g/3", "g/4"), "a", false), want: "put move/task/g/3@7 NoCapacity",
		},
		"move to the dead": {request: to(task(api.Move, "g/1"), "c", false), want: "NotLive"},
		"move to who is cordoned": {
			request:  to(task(api.Move, "g/3"), "a", false),
			standing: []record.Override{standing(record.OverrideCordon, record.ScopeInstance, "a")}, want: "NotLive",
		},
		"move of an orphan": {
			request: to(task(api.Move, "g/orphan"), "a", false), want: "NotOwned",
		},
		"move of what is pinned": {
			request: to(task(api.Move, "g/3"), "a", false), standing: []record.Override{pinned}, want: "Pinned",
		},
		"move to who is not eligible": {
			request: to(task(api.Move, "gpu/tick"), "b", false), want: "NotEligible",
		},
		"move of what is paused": {
			request: to(task(api.Move, "g/3"), "a", false), standing: []record.Override{pausedGroup},
			want: "Paused",
		},
		"rebalance": {
			request: operate.Request{Verb: api.Rebalance, Scope: record.ScopeGroup, Names: []string{"g"}},
			want:    "put rebalance/group/g",
		},
		"the same names twice count as once": {request: task(api.Pause, "g/1", "g/1"), want: "put pause/task/g/1"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.request.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := summary(operate.Decide(state(test.standing...), test.request)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func summary(d operate.Decision) string {
	var parts []string
	for _, o := range d.Put {
		part := "put " + o.ID()
		if o.Token > 0 {
			part += fmt.Sprint("@", o.Token)
		}
		parts = append(parts, part)
	}
	for _, o := range d.Delete {
		parts = append(parts, "delete "+o.ID())
	}
	for _, name := range d.Unchanged {
		parts = append(parts, "unchanged "+name)
	}
	for _, r := range d.Refused {
		parts = append(parts, r.Reason)
	}
	return strings.Join(parts, " ")
}

// A result names each task once, whatever is written for it.
func TestResultsNameEachOnce(t *testing.T) {
	s := state(standing(record.OverridePause, record.ScopeTask, "g/1"))
	got := operate.Decide(s, task(api.Resume, "g/1", "g/2")).Result(nil)
	if !slices.Equal(got.Changed, []string{"g/1"}) || !slices.Equal(got.Unchanged, []string{"g/2"}) {
		t.Errorf("%+v", got)
	}
}

func TestRefusalsSayWhoAskedForWhatStandsInTheWay(t *testing.T) {
	paused := standing(record.OverridePause, record.ScopeGroup, "g")
	d := operate.Decide(state(paused), to(task(api.Move, "g/3"), "a", false))
	if want := "g is paused by ann (test): resume it first"; len(d.Refused) != 1 || d.Refused[0].Message != want {
		t.Errorf("%+v, want %q", d.Refused, want)
	}
}

func TestPreviewShowsWhatWouldMove(t *testing.T) {
	s := state()
	d := operate.Decide(s, instance(api.Drain, "b"))
	moves := reconcile.Preview(s.View, s.Declared, d.After(s.View.Overrides))
	if len(moves) == 0 {
		t.Fatal("nothing moves")
	}
	for _, m := range moves {
		orphan := m.Key == "g/orphan" && m.From == "" && m.To == "" // b had a place for it
		if !orphan && (m.From != "b" || m.Reason != record.ReasonDrain || m.To != "a" && m.To != "") {
			t.Errorf("%+v", m)
		}
	}
}
