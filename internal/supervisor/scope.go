package supervisor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/supervisor/output"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// shared is what all runs share.
type shared struct {
	cfg    Config
	starts chan struct{} // a place for each command that may be starting
	calls  chan struct{} // the same for start requests: an endpoint that hangs holds up no command
	output *output.Readers
}

// host is what the runs share.
func (m *shared) host() taskrun.Host {
	return taskrun.Host{
		Instance: m.cfg.Instance, T: m.cfg.Lease, HTTP: requests{m}, Callbacks: m.cfg.Registry, Environ: m.cfg.Environ,
		Withheld: m.cfg.Withheld, Assign: m.cfg.Assign,
	}
}

// asked is what operators ask of the task.
func (m *shared) asked(key elect.Key) taskrun.Asked {
	if m.cfg.Asked == nil {
		return taskrun.Asked{}
	}
	return m.cfg.Asked(key)
}

func (m *shared) log(hold Hold) logr.Logger {
	return m.cfg.Logger.WithValues("key", string(hold.Key()), "session", hold.Session())
}

// scope is what the runs of a task, their commands and the output of those have in common.
type scope struct {
	shared   *shared
	hold     Hold
	log      logr.Logger
	declared atomic.Pointer[tasks.Task] // as it is now
	stuck    atomic.Bool                // an alarm was raised
}

func newScope(m *shared, t *tasks.Task, hold Hold) *scope {
	s := &scope{shared: m, hold: hold, log: m.log(hold)}
	s.declared.Store(t)
	return s
}

var (
	errStuck      = errors.New("task does not end: its key stays here until it does")
	errStartStuck = errors.New("command does not start: the file system of its program or directory does not answer")
)

// slowStart is how long a start keeps one of the slots for simultaneous starts. One that takes longer hangs, on a
// dead file server as a rule, and must not hold up the others.
const slowStart = time.Second

// watchStop begins when a task is asked to stop; end is called when nothing of it is left.
func (s *scope) watchStop() (end func()) {
	cfg := s.shared.cfg
	return raiseAfter(s.task().Stop.Timeout+cfg.StuckAfter, func(since time.Time) bool {
		if !s.stuck.CompareAndSwap(false, true) {
			return false // what is left of a command is watched as well as the run that it is of
		}
		s.log.Error(errStuck, "The task is stuck", "duration", time.Since(since))
		if cfg.OnStuck != nil {
			cfg.OnStuck(s.task(), since)
		}
		return true
	}, func(since time.Time) {
		s.stuck.Store(false)
		s.log.Info("The task has ended after all", "duration", time.Since(since))
		if cfg.OnUnstuck != nil {
			cfg.OnUnstuck(s.task())
		}
	})
}

// watchStart begins when a command is about to start. leave frees its place; end is called with the starter's answer.
func (s *scope) watchStart(leave func()) (end func()) {
	cfg := s.shared.cfg
	slow := time.AfterFunc(slowStart, leave)
	answered := raiseAfter(cfg.StuckAfter, func(since time.Time) bool {
		s.log.Error(errStartStuck, "The task does not start", "duration", time.Since(since))
		if cfg.OnStartStuck != nil {
			cfg.OnStartStuck(s.task(), since)
		}
		return true
	}, func(since time.Time) {
		s.log.Info("The start is over after all", "duration", time.Since(since))
		if cfg.OnStartUnstuck != nil {
			cfg.OnStartUnstuck(s.task())
		}
	})
	return func() {
		slow.Stop()
		answered()
	}
}

// task is the task as it is declared now.
func (s *scope) task() tasks.Task { return *s.declared.Load() }

// declare notes the task as it is declared now.
func (s *scope) declare(t *tasks.Task) { s.declared.Store(t) }

// raiseAfter calls raise when end has not been called for so long, and calm at the end if raise returned true. They get
// the time at which the watch began.
func raiseAfter(after time.Duration, raise func(since time.Time) bool, calm func(since time.Time)) (end func()) {
	var mu sync.Mutex
	raised, over, since := false, false, time.Now()
	timer := time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		raised = !over && raise(since)
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; raised {
			calm(since)
		}
	}
}

// acquireSlot waits for one of the slots for simultaneous starts.
func acquireSlot(ctx context.Context, slots chan struct{}) (done func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// logger is log with the trace's ID.
func logger(c taskrun.TraceContext, log logr.Logger) logr.Logger {
	if id := c.ID(); id != "" {
		return log.WithValues("trace_id", id)
	}
	return log
}
