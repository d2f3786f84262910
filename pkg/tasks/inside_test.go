package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// insider is a callback that says that it works in this process.
type insider struct{ named }

func (insider) Inside() {}

// announced has runs in this process announced to a function.
func announced(to func(key elect.Key, session string, over bool) error) func(*Config) {
	return func(c *Config) { c.RunInside = to }
}

// runFor runs a task long enough for two starts.
func runFor(t *testing.T, s *Supervisor, task Task, hold Hold) {
	t.Helper()
	stop, done := runTask(t, s, task, hold)
	time.Sleep(1500 * time.Millisecond)
	stop(elect.ErrReleased)
	if err := <-done; !errors.Is(err, elect.ErrReleased) {
		t.Errorf("Run returned %v, want the cause of its context", err)
	}
}

// A run in this process is announced before it begins, and when it is over, however it ends.
func TestRunsInsideAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s, _ := rig(t, func(context.Context, Run) error {
			said = append(said, "run")
			if len(said) < 4 {
				panic("boom")
			}
			return nil
		}, announced(func(key elect.Key, session string, over bool) error {
			said = append(said, fmt.Sprintf("%s %t", key, over))
			if session == "" {
				t.Error("no session")
			}
			return nil
		}))
		task := callbackTask()
		task.Runner = insider{"work"}
		runFor(t, s, task, newHold(task))
		want := []string{"g/n false", "run", "g/n true", "g/n false", "run", "g/n true"}
		if len(said) < len(want) || !slices.Equal(said[:len(want)], want) {
			t.Errorf("said %q, want to begin with %q", said, want)
		}
	})
}

func TestRunsInsideWaitForTheirAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		s, _ := rig(t, func(context.Context, Run) error {
			ran = true
			return nil
		}, announced(func(elect.Key, string, bool) error { return errors.New("nobody heard it") }))
		task := callbackTask()
		task.Runner = insider{"work"}
		hold := newHold(task)
		runFor(t, s, task, hold)
		if states := hold.States(); ran || !slices.Contains(states, StateBackoff) {
			t.Errorf("the task ran: %t, states %v", ran, states)
		}
	})
}

func TestOtherRunsAreNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := rig(t, func(context.Context, Run) error { return nil }, announced(func(elect.Key, string, bool) error {
			t.Error("announced")
			return nil
		}))
		runFor(t, s, callbackTask(), newHold(callbackTask()))
	})
}
