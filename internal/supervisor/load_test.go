package supervisor

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/supervisor/job"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

const halfAMinute = 30 * time.Second

// A load is noted where it has changed by a tenth, at most every half minute, and not of a task that does not run.
func TestSetLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Lease: 20 * time.Second, Logger: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "a"}, Restart: tasks.RestartAlways}
		hold := fakehold.New(task.Key())
		h := newHeld(hold, nil, func(error) {})
		h.job = job.New(complete(&task), hold.Status())
		h.job.Begin(taskrun.Asked{}, 1, readClocks())
		s.loop.post(func() { s.loop.held[h.key] = h })
		said := func(load float64, after time.Duration) elect.Load {
			t.Helper()
			time.Sleep(after)
			if err := s.SetLoad(task.Key(), load); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return hold.Status().Load
		}
		for _, step := range []struct {
			load  float64
			after time.Duration
			want  float64
		}{{4, 0, 4}, {8, time.Second, 4}, {8, halfAMinute, 8}, {8.5, halfAMinute, 8}, {0, halfAMinute, 0}} {
			if got := said(step.load, step.after); got != (elect.Load{Known: true, Value: step.want}) {
				t.Errorf("after a load of %g: %+v", step.load, got)
			}
		}
		s.loop.post(func() {
			failed := tasks.Ending{Err: errors.New("exit status 1"), ByItself: true}
			h.job.Ended(taskrun.Asked{}, job.Attempt{Start: h.job.Start(), Ending: failed}, readClocks())
		})
		synctest.Wait()
		if got := said(7, halfAMinute); got.Value != 0 {
			t.Errorf("a load of a task that does not run: %+v", got)
		}
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 2e15} {
			if s.SetLoad(task.Key(), bad) == nil {
				t.Errorf("%g is a load", bad)
			}
		}
		if err := s.SetLoad("g/other", 1); err != nil {
			t.Error(err)
		}
		s.loop.post(func() { delete(s.loop.held, h.key) })
	})
}
