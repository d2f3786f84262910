package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/viewtest"
)

// TestOverridesAreShown holds that what operators asked for is shown with who, when and why. What stands is shown until
// it is taken back, and a request for one effect until the key has had it.
func TestOverridesAreShown(t *testing.T) {
	task := func(kind record.OverrideKind, token int64) record.Override {
		return record.Override{Kind: kind, Scope: record.ScopeTask, Name: "g/t1", To: "b", Token: token}
	}
	running := viewtest.Lock("g/t1", "B", "running") // under token 7
	fired := viewtest.Lock("g/t1", "B", "waiting")
	fired.Status.LastTrigger = 5000
	failed := viewtest.Lock("g/t1", "", "failed")
	failed.Suspended, failed.Status.Outcome = true, &elect.RunOutcome{Token: 7}
	for name, test := range map[string]struct {
		lock *record.Lock
		of   record.Override
		want string
	}{
		"a pin":                     {running, task(record.OverridePin, 0), "pin"},
		"a pause":                   {running, task(record.OverridePause, 0), "pause"},
		"a restart to come":         {running, task(record.OverrideRestart, 7), "restart"},
		"a restart that was obeyed": {running, task(record.OverrideRestart, 6), ""},
		"a move to come":            {running, task(record.OverrideMove, 7), "move"},
		"a move that was obeyed":    {running, task(record.OverrideMove, 6), ""},
		"a rerun to come":           {failed, task(record.OverrideRerun, 7), "rerun"},
		"a rerun that was obeyed":   {failed, task(record.OverrideRerun, 6), ""},
		"a rerun that runs":         {running, task(record.OverrideRerun, 7), ""},
		"a trigger to come":         {fired, task(record.OverrideTrigger, 5001), "trigger"},
		"a trigger that was fired":  {fired, task(record.OverrideTrigger, 5000), ""},
		"when a pause ended":        {running, task(record.OverrideResume, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewtest.Cluster(test.lock)
			viewtest.Overrides(test.of)(view)
			s := viewtest.Settings(t)
			got := makerOf(s, view, nil).tasks.task(&s.Groups[0].Tasks[0])
			var kinds []string
			for _, o := range got.Overrides {
				kinds = append(kinds, o.Kind)
				if o.By != "ann" || o.Reason != "test" || !o.At.Equal(time.UnixMilli(1000)) || o.Name != "g/t1" {
					t.Errorf("%+v", o)
				}
			}
			if text := strings.Join(kinds, " "); text != test.want {
				t.Errorf("%q, want %q", text, test.want)
			}
		})
	}
}

// TestOverridesOfInstancesAndGroups holds that a drained instance is shown as draining and counts for no capacity. A
// cordoned one counts as full. A group's pause is shown with the group and with each of its tasks.
func TestOverridesOfInstancesAndGroups(t *testing.T) {
	s := viewtest.Settings(t)
	view := viewtest.Cluster(viewtest.Lock("g/t1", "B", "running"))
	shown := func() string {
		lists := Make(Input{Settings: s, Cluster: view}, nil, time.Now()).Snapshot
		var parts []string
		for _, i := range lists.Instances {
			parts = append(parts, fmt.Sprint(i.Name, " ", i.State, " ", len(i.Overrides)))
		}
		g := lists.Status.Groups[1]
		return fmt.Sprint(strings.Join(parts, ", "), "; capacity ", *g.Capacity, ", overrides ", len(g.Overrides),
			"; ", lists.Task("g/t2").State, " with ", len(lists.Task("g/t2").Overrides))
	}
	if got, want := shown(), "a live 0, b live 0, c dead 0; capacity 4, overrides 0; unassigned with 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	viewtest.Overrides(
		record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "a"},
		record.Override{Kind: record.OverrideCordon, Scope: record.ScopeInstance, Name: "b"},
		record.Override{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "c"},
		record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"},
		record.Override{Kind: record.OverrideRebalance, Scope: record.ScopeGroup, Name: "g"},
	)(view)
	if got, want := shown(), "a draining 1, b live 1, c dead 1; capacity 1, overrides 1; paused with 1"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The newest comes first, and the task's own before its group's.
func TestOverridesOfATaskInOrder(t *testing.T) {
	view := viewtest.Cluster()
	viewtest.Overrides(
		record.Override{Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/t1", To: "b"},
		record.Override{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/t1"},
		record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"},
	)(view)
	s := viewtest.Settings(t)
	got := makerOf(s, view, nil).tasks.task(&s.Groups[0].Tasks[0])
	if len(got.Overrides) != 3 || got.Overrides[0].Kind != "pause" || got.Overrides[1].Kind != "pin" ||
		got.Overrides[2].Scope != "group" || got.State != api.Paused || got.PinnedTo != "b" {
		t.Errorf("%+v", got)
	}
}

// TestOverridesAreListed: what still counts is in the list of overrides, also of what is not declared.
func TestOverridesAreListed(t *testing.T) {
	view := viewtest.Cluster(viewtest.Lock("g/1", "A", "running"))
	view.Overrides = append(view.Overrides, []record.Override{
		{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "old/task", At: 4000, Until: 9000},
		{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "gone"},
		{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideResume, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideRebalance, Scope: record.ScopeGroup, Name: "g"},
		{Kind: record.OverrideRestart, Scope: record.ScopeTask, Name: "g/1", Token: 6}, // it has restarted
		{Kind: record.OverrideMove, Scope: record.ScopeTask, Name: "g/1", Token: 7, To: "b"},
	}...)
	s := Make(Input{Settings: viewtest.Settings(t), Cluster: view}, nil, time.Now()).Snapshot
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
