// Package supervisor runs tasks while their keys are held.
//
// A [Supervisor] runs a task under a [Hold], the lease of its key: for as long as the key is held, or at each tick of a
// schedule. It restarts what ends, with backoff, and stops what has to stop. It returns only when nothing of the work
// is left, so that the key may go on. Package tasks says what is promised, and what is not.
//
// A [LocalStarter] has no second process that watches over the first: when a service dies by kill -9, grandchildren of
// it live on.
package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/shardctl/shardctl/internal/supervisor/output"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Supervisor runs tasks under their leases. A task that waits, for a tick or between two tries, has no goroutine.
// Its methods may be called concurrently.
type Supervisor struct {
	shared *shared
	loop   *loop

	clients *taskrun.Clients
	local   *LocalStarter // when cfg.Starter is the supervisor's own
	close   sync.Once
}

// New makes a supervisor. It fails when Lease is not positive. Close it when nothing runs any more.
func New(cfg Config) (*Supervisor, error) {
	if cfg.Lease <= 0 {
		return nil, fmt.Errorf("new supervisor: lease duration is %s, it must be positive", cfg.Lease)
	}
	if cfg.Starts < 0 {
		return nil, fmt.Errorf(
			"new supervisor: simultaneous starts are %d, at least 1 is needed, or 0 for the default", cfg.Starts,
		)
	}
	s := &Supervisor{clients: &taskrun.Clients{}}
	if cfg.Starter == nil {
		s.local = NewLocalStarter()
		cfg.Starter = s.local
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = s.clients.Client
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ
	}
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Journal == nil {
		cfg.Journal = noJournal{}
	}
	cfg.StuckAfter = cmp.Or(cfg.StuckAfter, defaultStuckAfter)
	slots := cmp.Or(cfg.Starts, 8*runtime.GOMAXPROCS(0))
	s.shared = &shared{
		cfg: cfg, starts: make(chan struct{}, slots), calls: make(chan struct{}, slots),
		output: output.NewReaders(cfg.Output, cfg.Logger),
	}
	s.loop = newLoop(s.shared)
	go s.loop.run()
	return s, nil
}

// Declare says which tasks there are now, in place of those before, and returns the keys that are no longer among them.
// A task that runs and has changed starts again where [tasks.Task.NeedsRestart] says so; every other change takes
// effect at once. What is gone goes on until its key is released. The tasks are kept, and must not be changed.
func (s *Supervisor) Declare(all []*tasks.Task) (gone []elect.Key) { return s.loop.declare(all) }

// Asked has the tasks that are held obey what operators ask of them now, by [Config.Asked]. It does not wait.
func (s *Supervisor) Asked() { s.loop.post(s.loop.asked) }

// Runnable is the work of a declared task: give it to Claim of an [elect.Cluster]. It ends
//   - with the cause, when it is stopped and nothing of the task is left, however long that takes. Commands are killed
//     after the task's stop timeout, and with [elect.ErrLeaseLost] a tenth of the lease before the deadline at the
//     latest;
//   - with an error that wraps [taskrun.ErrDone], when the task has ended for good, also when an earlier owner has
//     noted so. Its key is suspended then;
//   - with the error, when the lock could not be advanced for another start: [elect.ErrLeaseLost] as a rule.
//
// A malformed task (an unknown callback, a variable that is not set, a bad schedule) keeps its key. What is wrong
// stands in its status. Nothing that a task does makes the supervisor panic; but a panic in a goroutine that a callback
// started itself cannot be caught.
func (s *Supervisor) Runnable(elect.Key) elect.Runnable { return &runnable{loop: s.loop} }

// Run runs a task, declared or not, for as long as ctx goes on. It is what [Supervisor.Runnable] does, for those who
// hold the key otherwise, and returns what that ends with. The key of a task that has ended for good is not suspended.
func (s *Supervisor) Run(ctx context.Context, t tasks.Task, hold Hold) error {
	ended := make(chan error, 1)
	h := newHeld(hold, complete(&t), func(err error) { ended <- err })
	//nolint:contextcheck // ctx ends it by stop
	s.loop.begin(h)
	defer context.AfterFunc(ctx, func() { s.loop.stop(h, context.Cause(ctx)) })() //nolint:contextcheck // likewise
	return <-ended
}

// SetLoad says how much work a task is that is held here, in any unit that is the same for all tasks of its group. Call
// it as often as you like: what was said in half a minute is averaged, and noted in the lock where it has changed by a
// tenth. With weightFrom: reported the task weighs as much, in comparison with others of its group. Of a task that is
// not held, or does not run, nothing is noted. The error says that the load is not a number from 0 to 1e15. It may be
// called concurrently, and does not wait.
func (s *Supervisor) SetLoad(key elect.Key, load float64) error {
	if !(elect.Load{Value: load}).Valid() {
		return fmt.Errorf("load of %s: is %g, must be a number from 0 to 1e15", key, load)
	}
	s.loop.setLoad(key, load)
	return nil
}

// Tail returns the newest lines that the task's commands wrote on this replica, the oldest first: at most n, 1,000
// and 256 KiB. The lines of tasks that ended here are kept for a while. All tasks together have 64 MiB; the largest
// give up their oldest lines first.
func (s *Supervisor) Tail(key elect.Key, n int) []taskrun.Line {
	return s.shared.output.Kept.Tail(key, n)
}

// Output returns all lines that Tail could, and from which of the task's starts they are; false: the task is not held
// here, and nothing of it is kept. It may be called concurrently.
func (s *Supervisor) Output(key elect.Key) (taskrun.Output, bool) {
	return s.shared.output.Kept.Output(key)
}

// Close waits until what commands wrote has been passed on, at most for some seconds, and frees what the supervisor
// keeps. Nothing may be held any more. A call of the sink that does not return is left behind.
func (s *Supervisor) Close() {
	s.close.Do(func() {
		s.loop.close()
		s.shared.output.Await()
		s.clients.Close()
		if s.local != nil {
			s.local.Close()
		}
	})
}
