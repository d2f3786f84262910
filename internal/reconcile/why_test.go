package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// seenBy is what the first of some live replicas knows, whose cap is 20. Each owns so many keys of the group g, in
// order. What follows has no owner.
func seenBy(owned ...int) (*cluster.View, Declared) {
	v := &cluster.View{
		Session: "A", Instance: "a", Open: true, Loaded: true, Outage: -1, Now: 1_000_000,
		Locks: map[elect.Key]*record.Lock{}, Held: map[elect.Key]cluster.Held{},
	}
	d := Declared{Revision: 7, Groups: []DeclaredGroup{{Name: "g", Hash: "h"}}}
	n := 0
	for i, count := range owned {
		name := string(rune('a' + i))
		v.Sessions = append(v.Sessions, cluster.Session{
			ID: strings.ToUpper(name), State: record.Live, Known: true, Member: record.Member{
				Instance: name, Caps: map[string]int{"g": 20}, ListHashes: map[string]string{"g": "h"},
				ListRevision: 7,
				Revision:     "one", Labels: map[string]string{}, Opened: 1,
			},
		})
		for range count {
			n++
			key := elect.Key(fmt.Sprintf("g/%03d", n))
			v.Locks[key] = &record.Lock{Key: key, Session: strings.ToUpper(name), Instance: name, Token: 1}
			if i == 0 {
				v.Held[key] = cluster.Held{Phase: cluster.PhaseRunning}
			}
			d.Groups[0].Keys = append(d.Groups[0].Keys, DeclaredKey{Key: key})
		}
	}
	return v, d
}

func declareMore(d *Declared, n int) {
	for range n {
		key := elect.Key(fmt.Sprintf("g/%03d", len(d.Groups[0].Keys)+1))
		d.Groups[0].Keys = append(d.Groups[0].Keys, DeclaredKey{Key: key})
	}
}

func ask(v *cluster.View, o record.Override) {
	o.By, o.Reason, o.At = "alice", "new kernel", v.Now
	v.Overrides = append(v.Overrides, o)
}

func decideFor(v *cluster.View, d Declared, p Policy) (Decision, Report) {
	calm := Calm{Quiet: time.Minute, Up: time.Minute, Outage: -1}
	return newSituation(v, d, p, calm).decide(Wave{}, time.Unix(1_000, 0))
}

func TestReleasesSayWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cluster.View, *Declared)
		want   Why
	}{
		"drained": {func(v *cluster.View, _ *Declared) {
			ask(v, record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a"})
		}, Why{record.ReasonDrain, "a is drained by alice (new kernel)"}},
		"stops": {func(v *cluster.View, _ *Declared) {
			v.Draining = true
		}, Why{record.ReasonShutdown, "a is stopping"}},
		"stops for a newer one": {func(v *cluster.View, _ *Declared) {
			v.Draining = true
			v.Sessions[1].Member.Revision, v.Sessions[1].Member.Opened = "two", 2
		}, Why{record.ReasonUpgrade, "a is stopping, and rolled to b, which has the newer revision two"}},
		"pinned": {func(v *cluster.View, _ *Declared) {
			ask(v, record.Override{Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/001", To: "b"})
		}, Why{record.ReasonPin, "pinned to b by alice (new kernel)"}},
		"moved": {func(v *cluster.View, _ *Declared) {
			ask(
				v,
				record.Override{Kind: record.OverrideMove, Scope: record.ScopeTask, Name: "g/001", To: "b", Token: 1},
			)
		}, Why{record.ReasonMove, "moved to b by alice (new kernel)"}},
		"paused": {func(v *cluster.View, _ *Declared) {
			ask(v, record.Override{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/001"})
		}, Why{record.ReasonPaused, "paused by alice (new kernel)"}},
		"its group paused": {func(v *cluster.View, _ *Declared) {
			ask(v, record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"})
		}, Why{record.ReasonPaused, "its group is paused by alice (new kernel)"}},
		"removed": {func(_ *cluster.View, d *Declared) {
			d.Groups[0].Keys = d.Groups[0].Keys[1:]
		}, Why{record.ReasonRemoved, "no longer in the task list (revision 7)"}},
		"uneven": {func(v *cluster.View, _ *Declared) {
			v.Sessions = append(v.Sessions, v.Sessions[1])
			v.Sessions[2].ID, v.Sessions[2].Member.Instance = "C", "c"
		}, Why{record.ReasonBalance, "a owned 6 of 12 tasks, its share is 4"}},
		"above its cap": {func(v *cluster.View, _ *Declared) {
			v.Sessions[0].Member.Caps = map[string]int{"g": 5}
		}, Why{record.ReasonBalance, "a owned 6 tasks, and may own 5"}},
		"without the labels": {func(v *cluster.View, d *Declared) {
			d.Groups[0].Selector = map[string]string{"pool": "gpu"}
			v.Sessions[1].Member.Labels = map[string]string{"pool": "gpu"}
		}, Why{record.ReasonBalance, "a has not the labels pool=gpu that the group asks for"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, d := seenBy(6, 6)
			tc.change(v, &d)
			does, _ := decideFor(v, d, Policy{})
			if len(does.Release) == 0 {
				t.Fatal("nothing is released")
			}
			if got := (Why{does.Release[0].Reason, does.Release[0].Message}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// The end of a drain may reach this replica after the keys that others hand over for it.
func TestWhatWasJustGivenIsKeptUntilTheNextLook(t *testing.T) {
	v, d := seenBy(6, 6)
	ask(v, record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a"})
	v.Looked = 7
	look := func(key elect.Key, number uint64) {
		held := v.Held[key]
		held.Look = number
		v.Held[key] = held
	}
	look("g/001", v.Looked)
	look("g/002", v.Looked-1)
	released := func() []elect.Key {
		does, _ := decideFor(v, d, Policy{})
		var keys []elect.Key
		for _, handOver := range does.Release {
			keys = append(keys, handOver.Key)
		}
		slices.Sort(keys)
		return keys
	}
	if want := []elect.Key{"g/002", "g/003", "g/004", "g/005", "g/006"}; !slices.Equal(released(), want) {
		t.Errorf("released %v, want %v", released(), want)
	}
	ask(v, record.Override{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/001"})
	if !slices.Contains(released(), "g/001") {
		t.Error("a pause has to wait as well")
	}
	v.Overrides = v.Overrides[:1]
	v.Looked++
	if n := len(released()); n != 6 {
		t.Errorf("released %d after the next look, want 6", n)
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cluster.View, *Declared)
		policy Policy
		want   Refusal // of the last key
	}{
		"full": {
			change: func(_ *cluster.View, d *Declared) { declareMore(d, 4) },
			want:   Refusal{Reason: balancer.NoCapacity, Message: "no capacity: 5 replicas × cap 20 = 100, 104 tasks"},
		},
		"unequal": {change: func(v *cluster.View, d *Declared) {
			declareMore(d, 1)
			v.Sessions[1].Member.Caps = map[string]int{"g": 10}
		}, want: Refusal{Reason: balancer.NoCapacity, Message: "no capacity: 5 replicas for 90, 101 tasks"}},
		"drained and cordoned": {change: func(v *cluster.View, d *Declared) {
			declareMore(d, 1)
			ask(v, record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "b"})
			ask(v, record.Override{Kind: record.OverrideCordon, Scope: record.ScopeInstance, Name: "c"})
		}, want: Refusal{Reason: balancer.NoCapacity, Message: "no capacity: 3 replicas × cap 20 = 60, 101 tasks; " +
			"b is not counted: drained by alice (new kernel); c is not counted: cordoned by alice (new kernel)"}},
		"another list": {change: func(v *cluster.View, d *Declared) {
			declareMore(d, 1)
			v.Sessions[4].Member.ListHashes = map[string]string{"g": "other"}
		}, want: Refusal{Reason: balancer.NoCapacity, Message: "no capacity: 4 replicas × cap 20 = 80, 101 tasks; " +
			"e is not counted: it has another task list"}},
		"no labels": {change: func(_ *cluster.View, d *Declared) {
			d.Groups[0].Selector = map[string]string{"pool": "gpu"}
		}, want: Refusal{Reason: balancer.NoInstance, Message: "no live instance may own it: none has the labels pool=gpu"}},
		"all drained": {change: func(v *cluster.View, _ *Declared) {
			v.Sessions = v.Sessions[:2]
			ask(v, record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a"})
			v.Sessions[1].State = record.Draining
		}, want: Refusal{Reason: balancer.NoInstance, Message: "no live instance may own it: " +
			"a is drained by alice (new kernel), b is stopping"}},
		"pinned to no one": {change: func(v *cluster.View, _ *Declared) {
			ask(v, record.Override{
				Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/100", To: "zone=x", Strict: true,
			})
		}, want: Refusal{Reason: balancer.PinUnavailable, Message: "pinned strictly to zone=x by alice (new kernel): " +
			"no live replica matches"}},
		"pinned to one that is full": {change: func(v *cluster.View, _ *Declared) {
			v.Sessions[1].Member.Caps = map[string]int{"g": 0}
			ask(v, record.Override{
				Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/100", To: "b", Strict: true,
			})
		}, want: Refusal{Reason: balancer.PinUnavailable, Message: "pinned strictly to b by alice (new kernel): " +
			"b is full, it may own 0"}},
		"waits for the owner": {change: func(v *cluster.View, _ *Declared) {
			v.Locks["g/100"] = &record.Lock{
				Key: "g/100", Token: 1, Reason: record.ReasonShutdown, From: "z", Since: v.Now - 1000,
			}
		}, policy: Policy{RestartGrace: time.Minute}, want: Refusal{
			Reason:  balancer.PinUnavailable,
			Message: "waits for z to come back, for 1m0s after it stopped (rebalance.restartGrace)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v, d := seenBy(20, 20, 20, 20, 20)
			tc.change(v, &d)
			_, report := decideFor(v, d, tc.policy)
			if len(report.Unassigned) == 0 {
				t.Fatal("every key has an owner")
			}
			last := report.Unassigned[len(report.Unassigned)-1]
			if tc.want.Key = last.Key; last != tc.want {
				t.Errorf("%+v\nwant %+v", last, tc.want)
			}
		})
	}
}

func TestClaimsSayWhatIsOver(t *testing.T) {
	v, _ := seenBy(1)
	key := elect.Key("g/001")
	for name, tc := range map[string]struct {
		lock record.Lock
		ask  record.OverrideKind
		want Why
	}{
		"given away": {lock: record.Lock{Reason: record.ReasonDrain}},
		"resumed": {
			lock: record.Lock{Suspended: true, Reason: record.ReasonPaused},
			want: Why{record.ReasonResumed, "its pause is over"},
		},
		"no longer pinned": {
			lock: record.Lock{Reason: record.ReasonPin, Message: "pinned to zone=x by alice"},
			want: Why{record.ReasonPin, "its strict pin is over"},
		},
		"pinned here":             {lock: record.Lock{Reason: record.ReasonPin}, ask: record.OverridePin},
		"handed over for its pin": {lock: record.Lock{Reason: record.ReasonPin, Next: "A"}},
		"declared again": {
			lock: record.Lock{Suspended: true, Reason: record.ReasonRemoved},
			want: Why{record.ReasonCreated, "declared again"},
		},
		"rerun": {
			lock: record.Lock{
				Suspended: true, Reason: record.ReasonCreated,
				Status: record.TaskStatus{Outcome: &record.RunOutcome{Token: 3}},
			},
			ask: record.OverrideRerun, want: Why{record.ReasonRerun, "to run again by alice (new kernel)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := *v
			seen.Overrides = nil
			tc.lock.Key = key
			seen.Locks = map[elect.Key]*record.Lock{key: &tc.lock}
			if tc.ask != "" {
				ask(&seen, record.Override{Kind: tc.ask, Scope: record.ScopeTask, Name: string(key), Token: 3, To: "a"})
			}
			if got := newSituation(&seen, Declared{}, Policy{}, Calm{}).claiming(key); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestLongReasonsAreCut(t *testing.T) {
	w := whyOf(record.ReasonDrain, "%s", strings.Repeat("ä", elect.MaxText))
	if len(w.Message) > elect.MaxText || !strings.HasSuffix(w.Message, "ä") {
		t.Errorf("%d bytes, ends with %q", len(w.Message), w.Message[len(w.Message)-4:])
	}
}
