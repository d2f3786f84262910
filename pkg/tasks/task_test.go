package tasks

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBackoffDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "max")),
		}
		n := rapid.IntRange(0, 200).Draw(t, "failures")
		ceiling := b.Max
		if n < 20 {
			ceiling = min(b.Max, b.Initial<<n)
		}
		if got := b.ceiling(n); got > ceiling || n < 20 && got != ceiling {
			t.Fatalf("ceiling %s, want %s", got, ceiling)
		}
		if d := b.Delay(n); d <= 0 || d > ceiling {
			t.Fatalf("delay %s, want within (0, %s]", d, ceiling)
		}
	})
}

// work is a runner of a kind. It does nothing.
type work struct{ kind, what string }

func (w work) Kind() string                 { return w.kind }
func (w work) NeedsRestart(old Runner) bool { return old != Runner(w) }

func TestWhatNeedsARestart(t *testing.T) {
	task := Task{Identity: Identity{Group: "g", Name: "n"}, Runner: work{"callback", "work"}}.WithDefaults()
	next := task
	next.Labels, next.Weight, next.Stop.Timeout = map[string]string{"team": "core"}, 7, time.Minute
	next.Restart, next.Backoff = RestartOnFailure, Backoff{Initial: time.Hour, Max: time.Hour}
	if next.NeedsRestart(task) {
		t.Error("labels, weight, stop, restart and backoff need a restart")
	}
	for name, change := range map[string]func(*Task){
		"runner":   func(t *Task) { t.Runner = work{"callback", "other"} },
		"kind":     func(t *Task) { t.Runner = work{"exec", "true"} },
		"index":    func(t *Task) { t.Index = "1" },
		"schedule": func(t *Task) { t.Schedule = "@daily" },
		"every":    func(t *Task) { t.Every = time.Minute },
	} {
		other := task
		if change(&other); !other.NeedsRestart(task) {
			t.Errorf("another %s is said to need no restart", name)
		}
	}
}
