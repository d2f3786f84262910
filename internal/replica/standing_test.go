package replica

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// asking has operators ask for these, each a second after the one before.
func asking(overrides ...record.Override) func(*cluster.View) {
	return func(v *cluster.View) {
		for i, o := range overrides {
			o.By, o.Reason, o.At = "ann", "test", int64(1000*(i+1))
			v.Overrides = append(v.Overrides, o)
		}
	}
}

// TestOverridesAreShown holds that what operators asked for is shown with who, when and why. What stands is shown until
// it is taken back, and a request for one effect until the key has had it.
func TestOverridesAreShown(t *testing.T) {
	task := func(kind record.OverrideKind, token int64) record.Override {
		return record.Override{Kind: kind, Scope: record.ScopeTask, Name: "g/t1", To: "b", Token: token}
	}
	running := lockOf("g/t1", "B", "running") // under token 7
	fired := lockOf("g/t1", "B", "waiting")
	fired.Status.LastTrigger = 5000
	failed := lockOf("g/t1", "", "failed")
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
			view := viewOf(test.lock)
			asking(test.of)(view)
			s := settings(t)
			got := gather(s, view, nil).keys.task(&s.Groups[0].Tasks[0])
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
	s := settings(t)
	view := viewOf(lockOf("g/t1", "B", "running"))
	shown := func() string {
		m := gather(s, view, nil)
		lists := m.lists()
		var parts []string
		for _, i := range m.members.instances(time.Time{}) {
			parts = append(parts, fmt.Sprint(i.Name, " ", i.State, " ", len(i.Overrides)))
		}
		g := lists.Status.Groups[0]
		return fmt.Sprint(strings.Join(parts, ", "), "; capacity ", *g.Capacity, ", overrides ", len(g.Overrides),
			"; ", lists.Tasks[1].State, " with ", len(lists.Tasks[1].Overrides))
	}
	if got, want := shown(), "a live 0, b live 0, c dead 0; capacity 4, overrides 0; unassigned with 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	asking(
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
	view := viewOf()
	asking(
		record.Override{Kind: record.OverridePin, Scope: record.ScopeTask, Name: "g/t1", To: "b"},
		record.Override{Kind: record.OverridePause, Scope: record.ScopeTask, Name: "g/t1"},
		record.Override{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: "g"},
	)(view)
	s := settings(t)
	got := gather(s, view, nil).keys.task(&s.Groups[0].Tasks[0])
	if len(got.Overrides) != 3 || got.Overrides[0].Kind != "pause" || got.Overrides[1].Kind != "pin" ||
		got.Overrides[2].Scope != "group" || got.State != api.Paused || got.PinnedTo != "b" {
		t.Errorf("%+v", got)
	}
}
