package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// operator asks things of the task that is declared and held.
type operator struct {
	t     *testing.T
	s     *Supervisor
	hold  *fakehold.Hold
	asked atomic.Pointer[taskrun.Asked]
	ended chan error

	mu    sync.Mutex
	began []tasks.Run
}

// newOperator declares the task, whose runs go on until they are asked to stop, and begins it.
func newOperator(t *testing.T, task tasks.Task) *operator {
	t.Helper()
	o := &operator{t: t, hold: newHold(task), ended: make(chan error, 1)}
	o.asked.Store(&taskrun.Asked{})
	o.s, _ = rig(t, func(ctx context.Context, run tasks.Run) error {
		o.mu.Lock()
		o.began = append(o.began, run)
		o.mu.Unlock()
		<-ctx.Done()
		return context.Cause(ctx)
	}, func(c *Config) { c.Asked = func(elect.Key) taskrun.Asked { return *o.asked.Load() } })
	o.s.Declare([]*tasks.Task{&task})
	o.begin()
	return o
}

func (o *operator) begin() { o.s.loop.begin(newHeld(o.hold, nil, func(err error) { o.ended <- err })) }

// ask asks, and lets what follows happen.
func (o *operator) ask(a taskrun.Asked) {
	o.asked.Store(&a)
	o.s.Asked()
	synctest.Wait()
}

func (o *operator) wantRuns(n int, what string) {
	o.t.Helper()
	synctest.Wait()
	if began := len(o.runs()); began != n {
		o.t.Errorf("%s: %d runs, want %d", what, began, n)
	}
}

// runs are those that have begun.
func (o *operator) runs() []tasks.Run {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.began)
}

func (o *operator) stop() {
	for _, h := range o.held() {
		o.s.loop.stop(h, elect.ErrReleased)
	}
	if err := <-o.ended; err != nil && !errors.Is(err, elect.ErrReleased) {
		o.t.Errorf("ended with %v", err)
	}
}

func (o *operator) held() []*held {
	found := make(chan []*held, 1)
	o.s.loop.post(func() {
		var all []*held
		for _, h := range o.s.loop.held {
			all = append(all, h)
		}
		found <- all
	})
	return <-found
}

func TestARestartStartsAgainAtOnceUnderALargerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOperator(t, callbackTask())
		o.wantRuns(1, "begun")
		token := o.hold.Token()
		o.ask(taskrun.Asked{Restart: token})
		o.wantRuns(2, "restarted, without a wait")
		if o.runs()[1].Token <= token {
			t.Errorf("runs under token %d again", token)
		}
		if st := o.hold.Status(); st.State != record.StateRunning || st.Restarts != 0 || st.LastError != "" {
			t.Errorf("%+v: want it running as if it had just begun", st)
		}
		o.ask(taskrun.Asked{Restart: token})
		o.ask(taskrun.Asked{Restart: token, Rerun: 1})
		o.wantRuns(2, "asked again for what has happened")
		o.ask(taskrun.Asked{Restart: o.hold.Token()})
		o.wantRuns(3, "asked for another")
		o.stop()
	})
}

func TestARestartEndsABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		task.Runner = named("nowhere")
		task.Backoff = tasks.Backoff{Initial: time.Hour, Max: time.Hour}
		o := newOperator(t, task)
		synctest.Wait()
		if st := o.hold.Status(); st.State != record.StateBackoff {
			t.Fatalf("%+v: want a backoff", st)
		}
		tries := len(o.hold.Advanced())
		o.ask(taskrun.Asked{Restart: o.hold.Token()})
		if n := len(o.hold.Advanced()); n != tries+1 {
			t.Errorf("%d tries, want %d", n, tries+1)
		}
		o.stop()
	})
}

func TestARestartedTickIsTheSameTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		task.Schedule = "0 * * * *"
		o := newOperator(t, task)
		time.Sleep(90 * time.Minute)
		o.wantRuns(1, "the first tick")
		o.ask(taskrun.Asked{Restart: o.hold.Token()})
		o.wantRuns(2, "restarted")
		if a, b := o.runs()[0], o.runs()[1]; !a.ScheduledAt.Equal(b.ScheduledAt) || a.Token >= b.Token {
			t.Errorf("first %+v, then %+v: want the same tick under a larger token", a.Start, b.Start)
		}
		o.stop()
	})
}

func TestATriggerIsOneTickMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		task.Schedule, task.Timeout = "0 * * * *", time.Minute
		o := newOperator(t, task)
		time.Sleep(10 * time.Minute)
		o.wantRuns(0, "no tick yet")
		at := time.Now()
		trigger := taskrun.Asked{Trigger: at.UnixMilli()}
		o.ask(trigger)
		o.wantRuns(1, "triggered")
		o.ask(taskrun.Asked{Trigger: trigger.Trigger, Rerun: 1})
		time.Sleep(2 * time.Minute)
		o.wantRuns(1, "asked again for what has happened")
		o.stop()
		o.begin()
		time.Sleep(2 * time.Minute)
		o.wantRuns(1, "another owner knows that it was fired")
		time.Sleep(50 * time.Minute)
		o.wantRuns(2, "the next tick comes as ever")
		var ticks []time.Time
		for _, run := range o.runs() {
			ticks = append(ticks, run.ScheduledAt)
		}
		want := []time.Time{at.Truncate(time.Millisecond).UTC(), at.Truncate(time.Hour).Add(time.Hour).UTC()}
		if !slices.EqualFunc(ticks, want, time.Time.Equal) {
			t.Errorf("ticks %v, want %v", ticks, want)
		}
		o.stop()
	})
}

// A tick asked for while a run goes on is fired when that is over.
func TestATriggerWaitsForTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := callbackTask()
		task.Schedule, task.Timeout = "0 * * * *", 10*time.Minute
		o := newOperator(t, task)
		time.Sleep(65 * time.Minute)
		o.wantRuns(1, "the tick")
		o.ask(taskrun.Asked{Trigger: time.Now().UnixMilli()})
		o.wantRuns(1, "while it runs")
		time.Sleep(6 * time.Minute)
		o.wantRuns(2, "after it")
		o.stop()
	})
}
