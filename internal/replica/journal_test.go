package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// notes is what a journal passes on.
type notes struct {
	events []record.Event
	runs   []record.Run
}

func (n *notes) journal(v *cluster.View) *journal {
	return &journal{
		instance: "a", view: func() *cluster.View { return v },
		note: func(e record.Event) { n.events = append(n.events, e) },
		keep: func(_ elect.Key, r record.Run) { n.runs = append(n.runs, r) },
	}
}

func (n *notes) types() []string {
	var types []string
	for _, e := range n.events {
		types = append(types, e.Type)
	}
	return types
}

func TestRunsThatFailAreEventsOnceAMinute(t *testing.T) {
	n := &notes{}
	j := n.journal(viewOf())
	began := time.UnixMilli(1_000_000)
	run := func(after time.Duration, result tasks.Result, again bool) {
		past := tasks.PastRun{
			Start: tasks.Start{Token: 7, Attempt: 1, ScheduledAt: began.Add(after)}, Began: began.Add(after),
			Ended: began.Add(after + time.Second), Result: result, Again: again,
		}
		if result == tasks.ResultFailed {
			past.Err, past.Code = errors.New("exit status 3"), 3
		}
		j.Ran("g/t1", past)
	}
	run(0, tasks.ResultFailed, true) // it is tried again
	run(2*time.Second, tasks.ResultFailed, false)
	run(4*time.Second, tasks.ResultFailed, false) // noted a moment ago
	run(70*time.Second, tasks.ResultFailed, false)
	run(72*time.Second, tasks.ResultSucceeded, false)
	run(74*time.Second, tasks.ResultFailed, false) // after a success it is news
	if want := []string{eventRunFailed, eventRunFailed, eventRunFailed}; !slices.Equal(n.types(), want) {
		t.Errorf("%v, want %v", n.types(), want)
	}
	if len(n.runs) != 6 || n.runs[0].Result != record.RunFailed || n.runs[0].ExitCode != 3 ||
		n.runs[0].Instance != "a" ||
		n.runs[4].Result != record.RunSucceeded {
		t.Errorf("%+v", n.runs)
	}
	if text := n.events[0].Message; !strings.Contains(text, "failed after 1s, at attempt 1: exit status 3") {
		t.Error(text)
	}
}

func TestARunCutOffIsThatOfTheOwnerBefore(t *testing.T) {
	mine := lockOf("g/t1", "A", "running")
	mine.From = "z"
	adopted := lockOf("g/t1", "A", "running")
	adopted.From, adopted.Since = "z", 3 // before the run began
	for name, test := range map[string]struct {
		lock *record.Lock
		want string
	}{
		"claimed, and seen": {mine, "z"}, "claimed, not seen yet": {lockOf("g/t1", "C", "running"), "iC"},
		"adopted": {adopted, "iA"},
	} {
		n := &notes{}
		n.journal(viewOf(test.lock)).Ran("g/t1", tasks.PastRun{
			Began: time.UnixMilli(5), Result: tasks.ResultStopped, Start: tasks.Start{ScheduledAt: time.UnixMilli(4)},
		})
		if r := n.runs[0]; r.Instance != test.want || r.Result != record.RunInterrupted || r.End != 0 || r.Tick != 4 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestOtherEventsOfTasks(t *testing.T) {
	n := &notes{}
	j := n.journal(viewOf())
	j.Missed("g/t1", time.UnixMilli(0), time.Hour)
	j.Looping("g/t1", tasks.CrashLoop{Failures: 3, Err: errors.New("exit status 1"), Next: time.UnixMilli(0)})
	j.Failed("g/t1", tasks.ErrDone)
	if want := []string{eventMissed, eventCrashLoop, eventFailed}; !slices.Equal(n.types(), want) {
		t.Errorf("%v, want %v", n.types(), want)
	}
	if text := n.events[1].Message; text !=
		"crash-looping: exit status 1, 3 failures in a row, next try at 1970-01-01T00:00:00Z" {
		t.Error(text)
	}
}

const jobs = `
version: 1
instance: a
store: {uri: "sqlite:x.db"}
groups:
  - name: g
    tasks:
      - {name: t1, every: 1m, exec: {command: [date]}}
      - {name: t2, exec: {command: [date]}}
`

func TestTheRunThatGoesOnIsShown(t *testing.T) {
	s := settingsOf(t, jobs)
	lock := lockOf("g/t1", "B", "running")
	lock.Status.LastTick = 2500
	m := gather(s, viewOf(lock, lockOf("g/t2", "B", "running")), &balancer.Report{})
	db := memory.New()
	runs, err := listRuns(t.Context(), db, m, "g/t1")
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	want := api.Run{
		ScheduledAt: api.Millis(2500), StartedAt: api.Millis(3000), Result: "Running", Instance: "b",
		FencingToken: 7,
	}
	if runs[0] != want {
		t.Errorf("%+v, want %+v", runs[0], want)
	}
	if runs, err := listRuns(t.Context(), db, m, "g/t2"); err != nil || len(runs) > 0 {
		t.Errorf("of a task that runs for ever: %+v, %v", runs, err)
	}
}

func TestThePastIsReadFromTheStore(t *testing.T) {
	db := memory.New()
	runs := record.Runs{Key: "g/t1", Rev: 1, List: []record.Run{{Tick: 1, Start: 2, End: 3, Result: record.RunFailed}}}
	event := record.Event{ID: record.EventID(5, "s", 1), Time: 5, Type: record.EventMoved, Key: "g/t1"}
	if outs, err := db.Apply(t.Context(),
		store.Change{Doc: runs.Doc(store.WriterID{Session: "s", Seq: 1})},
		store.Change{Doc: event.Doc(store.WriterID{Session: "s", Seq: 2})},
	); err != nil || outs[0].Err != nil || outs[1].Err != nil {
		t.Fatal(outs, err)
	}
	p := NewPast(settingsOf(t, jobs), db)
	if got, err := p.Runs(t.Context(), "g/t1"); err != nil || len(got) != 1 || got[0].Result != "Failed" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.Events(t.Context(), status.EventQuery{Limit: 10}); err != nil || len(got) != 1 ||
		got[0].Key != "g/t1" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInstancesSayWhy(t *testing.T) {
	view := viewOf()
	view.Sessions[2].Left, view.Sessions[2].Cause = true, "it left in order"
	view.Sessions = append(view.Sessions, session("D", "d", record.Dead), session("E", "e", record.Live))
	view.Sessions[3].Cause = "no heartbeat for 20 s"
	view.Overrides = []record.Override{
		{Kind: record.OverrideDrain, Scope: record.ScopeInstance, Name: "b", By: "alice", Reason: "new kernel"},
		{Kind: record.OverrideCordon, Scope: record.ScopeInstance, Name: "e", By: "bob"},
	}
	m := gather(settings(t), view, nil)
	got := map[string]string{}
	for _, i := range m.members.instances(time.Now()) {
		got[i.Name] = string(i.State) + ": " + i.Message
	}
	for name, want := range map[string]string{
		"a": "live: ", "b": "draining: drained by alice (new kernel)", "c": "left: it left in order",
		"d": "dead: no heartbeat for 20 s", "e": "live: cordoned by bob",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}
