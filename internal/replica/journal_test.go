package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/viewtest"
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
	j := n.journal(viewtest.Cluster())
	began := time.UnixMilli(1_000_000)
	run := func(after time.Duration, result taskrun.Result, again bool) {
		past := taskrun.PastRun{
			Start: tasks.Start{Token: 7, Attempt: 1, ScheduledAt: began.Add(after)}, Began: began.Add(after),
			Ended: began.Add(after + time.Second), Result: result, Again: again,
		}
		if result == taskrun.ResultFailed {
			past.Err, past.Code = errors.New("exit status 3"), 3
		}
		j.Ran("g/t1", past)
	}
	run(0, taskrun.ResultFailed, true) // it is tried again
	run(2*time.Second, taskrun.ResultFailed, false)
	run(4*time.Second, taskrun.ResultFailed, false) // noted a moment ago
	run(70*time.Second, taskrun.ResultFailed, false)
	run(72*time.Second, taskrun.ResultSucceeded, false)
	run(74*time.Second, taskrun.ResultFailed, false) // after a success it is news
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
	mine := viewtest.Lock("g/t1", "A", "running")
	mine.From = "z"
	adopted := viewtest.Lock("g/t1", "A", "running")
	adopted.From, adopted.Since = "z", 3 // before the run began
	for name, test := range map[string]struct {
		lock *record.Lock
		want string
	}{
		"claimed, and seen": {mine, "z"}, "claimed, not seen yet": {viewtest.Lock("g/t1", "C", "running"), "iC"},
		"adopted": {adopted, "iA"},
	} {
		n := &notes{}
		n.journal(viewtest.Cluster(test.lock)).Ran("g/t1", taskrun.PastRun{
			Began: time.UnixMilli(5), Result: taskrun.ResultStopped, Start: tasks.Start{ScheduledAt: time.UnixMilli(4)},
		})
		if r := n.runs[0]; r.Instance != test.want || r.Result != record.RunInterrupted || r.End != 0 || r.Tick != 4 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestOtherEventsOfTasks(t *testing.T) {
	n := &notes{}
	j := n.journal(viewtest.Cluster())
	j.Missed("g/t1", time.UnixMilli(0), time.Hour)
	j.Looping("g/t1", taskrun.CrashLoop{Failures: 3, Err: errors.New("exit status 1"), Next: time.UnixMilli(0)})
	j.Failed("g/t1", taskrun.ErrDone)
	if want := []string{eventMissed, eventCrashLoop, eventFailed}; !slices.Equal(n.types(), want) {
		t.Errorf("%v, want %v", n.types(), want)
	}
	if text := n.events[1].Message; text !=
		"crash-looping: exit status 1, 3 failures in a row, next try at 1970-01-01T00:00:00Z" {
		t.Error(text)
	}
}
