package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// ErrDone is what [Supervisor.Run] returns, possibly wrapped, when a task has ended for good, done or failed: its outcome
// is in the lock and the key should be parked.
var ErrDone = errors.New("task has ended for good")

// Supervisor runs tasks under their leases. Its methods may be called concurrently.
type Supervisor struct {
	cfg     Config
	starts  chan struct{} // a place for each command that may be starting
	calls   chan struct{} // the same for start requests: a far side that hangs holds up no command
	logs    *logs
	clients *Clients
	local   *LocalStarter // when cfg.Starter is the supervisor's own
	readers sync.WaitGroup

	outputEnd time.Duration // how long a sink that takes nothing is waited for once the command is gone

	mu      sync.Mutex
	running map[elect.Key]*running
}

// NewSupervisor makes a supervisor. It fails when Lease is not positive. Close it when no Run is under way.
func NewSupervisor(cfg Config) (*Supervisor, error) {
	if cfg.Lease <= 0 {
		return nil, fmt.Errorf("new supervisor: lease duration is %s, it must be positive", cfg.Lease)
	}
	if cfg.Starts < 0 {
		return nil, fmt.Errorf("new supervisor: simultaneous starts are %d, at least 1 is needed, or 0 for the default", cfg.Starts)
	}
	s := &Supervisor{logs: newLogs(), clients: &Clients{}, running: map[elect.Key]*running{}, outputEnd: outputEnd}
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
	cfg.StuckAfter = cmp.Or(cfg.StuckAfter, defaultStuckAfter)
	s.cfg = cfg
	places := cmp.Or(cfg.Starts, 8*runtime.GOMAXPROCS(0))
	s.starts, s.calls = make(chan struct{}, places), make(chan struct{}, places)
	return s, nil
}

// Run runs a task for as long as its key is held: it is a [RunFunc] once t is given. It returns
//   - when ctx has ended and nothing of the task is left, however long that takes: the cause of ctx. With a cause of [elect.ErrLeaseLost]
//     commands are killed a tenth of the lease before the hold's deadline, without one after the task's stop timeout;
//   - when the task has ended for good, also when an earlier owner has noted so: an error that wraps [ErrDone];
//   - when the lock could not be advanced for another start: that error, which wraps [elect.ErrLeaseLost] as a rule.
//
// A task that makes no sense (an unknown callback, a variable that is not set, a bad schedule) keeps its key, and what is wrong stands in
// its status. Nothing that a task does makes Run panic; but a panic in a goroutine that a callback started itself cannot be caught.
func (s *Supervisor) Run(ctx context.Context, t Task, hold Hold) error {
	s.logs.open(hold.Key())
	defer s.logs.release(hold.Key())
	r := newRunning(s, t.WithDefaults(), hold)
	s.mu.Lock()
	s.running[hold.Key()] = r
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[hold.Key()] == r {
			delete(s.running, hold.Key())
		}
	}()
	if t.Ticks() {
		return r.tick(ctx)
	}
	return r.keep(ctx)
}

// Update gives a task that Run is running its new fields, and says whether that is all it takes: they take effect while its work goes on.
// False says that the task does not run here, or must be run again; see [NeedsRestart]. Nothing is changed then.
func (s *Supervisor) Update(t Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[t.Key()]
	t = t.WithDefaults()
	if r == nil || NeedsRestart(r.task(), t) {
		return false
	}
	r.declared.Store(&t)
	return true
}

// Tail returns the newest lines that the task's commands wrote on this replica, the oldest first: at most n, 1,000 and
// 256 KiB. The lines of tasks that ended here are kept for a while.
func (s *Supervisor) Tail(key elect.Key, n int) []Line { return s.logs.tail(key, n) }

// Close waits until what commands wrote has been passed on, at most for some seconds, and frees what the supervisor keeps. No Run may be
// under way. A call of the sink that does not return is left behind.
func (s *Supervisor) Close() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.readers.Wait()
	}()
	limit := time.NewTimer(outputWait + 2*s.outputEnd)
	defer limit.Stop()
	select {
	case <-read:
	case <-limit.C:
		s.cfg.Logger.Error(errSinkBlocked, "output is left behind")
	}
	s.clients.Close()
	if s.local != nil {
		s.local.Close()
	}
}
