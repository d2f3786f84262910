package replica

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestEnded holds that tasks have ended when the store holds their outcomes, whatever they look like.
func TestEnded(t *testing.T) {
	keys := []elect.Key{"g/t1", "g/t2"}
	with := func(key elect.Key, owner string, suspended bool, outcome *elect.RunOutcome) *record.Lock {
		l := viewtest.Lock(key, owner, "done")
		l.Suspended, l.Status.Outcome = suspended, outcome
		return l
	}
	succeeded, failed := &elect.RunOutcome{Succeeded: true, At: 5000}, &elect.RunOutcome{At: 5000}
	for name, test := range map[string]struct {
		view   *cluster.View
		change func(*cluster.View)
		all    bool
		failed int
	}{
		"nothing known": {view: viewtest.Cluster()},
		"one runs":      {view: viewtest.Cluster(with("g/t1", "", true, succeeded), with("g/t2", "B", false, nil))},
		"both": {
			view: viewtest.Cluster(with("g/t1", "", true, succeeded), with("g/t2", "", true, failed)), all: true, failed: 1,
		},
		"not released yet": {
			view: viewtest.Cluster(with("g/t1", "B", false, succeeded), with("g/t2", "", true, succeeded)), all: true,
		},
		"released by a drain": {
			view: viewtest.Cluster(with("g/t1", "", false, succeeded), with("g/t2", "", true, succeeded)), all: true,
		},
		"paused": {
			view:   viewtest.Cluster(with("g/t1", "", true, succeeded), with("g/t2", "", true, succeeded)),
			change: viewtest.Override(record.OverridePause, "g/t1", ""), all: true,
		},
		"paused before its end": {
			view:   viewtest.Cluster(with("g/t1", "", true, nil), with("g/t2", "", true, succeeded)),
			change: viewtest.Override(record.OverridePause, "g/t1", ""),
		},
		"to run again": {view: viewtest.Cluster(
			with("g/t1", "", true, succeeded), with("g/t2", "", true, succeeded),
		), change: func(v *cluster.View) {
			v.Overrides = append(v.Overrides, record.Override{Kind: record.OverrideRerun, Name: "g/t1", Token: 3})
		}},
		"not read yet": {
			view:   viewtest.Cluster(with("g/t1", "", true, succeeded), with("g/t2", "", true, succeeded)),
			change: func(v *cluster.View) { v.Loaded = false },
		},
	} {
		if test.change != nil {
			test.change(test.view)
		}
		if all, failed := ended(test.view, keys); all != test.all || failed != test.failed {
			t.Errorf("%s: %v, %d failed; want %v, %d", name, all, failed, test.all, test.failed)
		}
	}
}

// TestTasksHearWhenAPauseEnded holds that a task counts no ticks of its own pause, nor of its group's.
func TestTasksHearWhenAPauseEnded(t *testing.T) {
	resume := func(scope record.Scope, name string) record.Override {
		return record.Override{Kind: record.OverrideResume, Scope: scope, Name: name}
	}
	view := viewtest.Cluster()
	viewtest.Overrides(
		resume(record.ScopeTask, "g/1"), resume(record.ScopeGroup, "g"), resume(record.ScopeTask, "g/3"),
	)(view)
	requests := requestsOf(view.Overrides)
	for key, want := range map[elect.Key]int64{"g/1": 2000, "g/2": 2000, "g/3": 3000, "h/1": 0} {
		if got := requests.to(key); got.Resumed != want {
			t.Errorf("%s: resumed at %d, want %d", key, got.Resumed, want)
		}
	}
}

// A drain of this instance is one line when it begins and one when it ends; what concerns others is none.
func TestDrainsAreLogged(t *testing.T) {
	var lines []string
	l := drainLog{
		log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), instance: "a",
	}
	mine := record.Override{
		Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a", By: "alice", Reason: "disk",
	}
	other := record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "b"}
	group := record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "a"}
	for _, now := range [][]record.Override{{other, group}, {other, mine}, {mine, group}, {other}, nil} {
		l.note(now)
	}
	want := []string{
		`"level"=0 "msg"="An operator wants less of this instance" "verb"="drain" "by"="alice" "reason"="disk"`,
		`"level"=0 "msg"="This instance takes part again as before" "verb"="undrain"`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("logged was\n%q, want\n%q", lines, want)
	}
}

// TestOverridesAreTended holds that what operators asked for is looked after every few minutes, by what is known of the
// instances then. Nothing is read while nothing is due or the store is unreachable.
func TestOverridesAreTended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		v := viewtest.Cluster()
		var seen []string
		times, ahead := 0, 0
		tend := func(_ context.Context, live []elect.Member) (operate.Tending, error) {
			times++
			seen = nil
			for _, m := range live {
				seen = append(seen, m.Instance)
			}
			if times == 1 {
				return operate.Tending{}, errors.New("not now") // tried again the next time
			}
			return operate.Tending{Ahead: []record.Override{{Kind: record.OverrideDrain, Name: "x"}}}, nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			log := funcr.New(func(_, args string) {
				if strings.Contains(args, "ahead") {
					ahead++
				}
			}, funcr.Options{})
			tendOverrides(ctx, func() *cluster.View { return v }, tend, log)
		}()
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if times != want {
				t.Errorf("%d times, want %d", times, want)
			}
		}
		after(time.Hour, 0)
		viewtest.Override(record.OverrideDrain, "x", "")(v)
		after(tendEvery, 1)
		if len(seen) != 2 || seen[0] != "a" || seen[1] != "b" {
			t.Errorf("%v live, want a and b: c is dead", seen)
		}
		v.Stale = true
		after(tendEvery, 1)
		v.Stale = false
		after(tendEvery, 2)
		v.Overrides = slices.Clone(v.Overrides)
		v.Overrides[0].Seen = time.Now().UnixMilli()
		after(tendEvery, 2)
		v.Overrides = nil
		after(tendEvery, 2)
		stop()
		<-ended
		if ahead != 1 {
			t.Errorf("%d lines of overrides that were dated far ahead, want one", ahead)
		}
	})
}

// overridden is a cluster whose overrides change.
type overridden struct {
	view    *cluster.View
	changed chan struct{}
}

func (o *overridden) View() *cluster.View { return o.view }

func (o *overridden) Changed() <-chan struct{} { return o.changed }

func (o *overridden) set(change func(*cluster.View)) {
	v := *o.view
	change(&v)
	before := o.changed
	o.view, o.changed = &v, make(chan struct{})
	close(before)
}

// What ends by itself is taken back when it is due by the store's clock, and again until it is: at once where a time is
// over already, and not while the store does not answer.
func TestWhatEndsByItselfIsTakenBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := &overridden{view: viewtest.Cluster(), changed: make(chan struct{})}
		looked := make(chan time.Duration, 8)
		begun := time.Now()
		failing := 1
		end := func(context.Context) error {
			looked <- time.Since(begun)
			if failing--; failing >= 0 {
				return errors.New("not now")
			}
			return nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			endOverrides(ctx, c, end, logr.Discard())
		}()
		after := func(d time.Duration, want ...time.Duration) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var at []time.Duration
			for len(looked) > 0 {
				at = append(at, <-looked)
			}
			if !slices.Equal(at, want) {
				t.Errorf("looked at %v, want %v", at, want)
			}
		}
		pause := func(d time.Duration) func(*cluster.View) {
			return func(v *cluster.View) {
				v.Ahead = time.Minute // the store's clock is that much behind
				v.Overrides = []record.Override{
					{Kind: record.OverrideResume, Scope: record.ScopeTask, Name: "g/2", Until: 5},
					{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/1", Until: begun.Add(d).UnixMilli()},
				}
			}
		}
		after(time.Hour)
		c.set(pause(2 * time.Hour))
		after(time.Hour)
		after(time.Minute+1500*time.Millisecond, 2*time.Hour+time.Minute, 2*time.Hour+time.Minute+endRetry)
		c.set(func(v *cluster.View) { v.Stale = true })
		after(time.Hour)
		c.set(func(v *cluster.View) { v.Stale, v.Overrides = false, nil })
		after(time.Hour)
		c.set(pause(time.Hour))
		after(time.Millisecond, 4*time.Hour+time.Minute+1500*time.Millisecond)
		stop()
		<-ended
	})
}
