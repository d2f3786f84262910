package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/runs"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Run is one run of a job: its Name, its fencing Token, the tick that it is for (ScheduledAt), which try it is
// (Attempt), its Lease and a Logger.
type Run = tasks.Run

// Func is the work of a job. ctx ends, with a cause, when it has to stop: it then returns soon. An error or a panic is
// a failure, which history shows.
type Func = tasks.Callback

// PastRun is a run that is over. Times are Unix milliseconds by the clock of the process that ran it.
type PastRun = record.Run

// ErrRunning says that it is too late: [Manager.Run] has been called.
var ErrRunning = errors.New("the manager runs already")

// Manager runs jobs. Its methods may be called concurrently.
type Manager struct {
	cfg      Config
	registry tasks.Registry
	keeper   *runs.Keeper

	mu      sync.Mutex
	jobs    []tasks.Task
	begun   bool
	elector *elect.Elector // while Run goes on, for Once
}

// New makes a manager. Nothing is sent to the store before Run.
func New(cfg Config) (*Manager, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("new manager of jobs: %w", err)
	}
	return &Manager{cfg: cfg, keeper: runs.NewKeeper(cfg.Store, nil, cfg.Logger)}, nil
}

// Add adds a job, before Run. spec is five fields of cron, a descriptor such as @daily, or "@every 5m", with
// CRON_TZ=ZONE before it or without. Ticks of @every are the same in all processes. name is the same in all processes,
// and so are the rules. Every process has to add the job that is to run it.
//
// Errors: the name is empty or taken, the function is nil, the spec or an option is malformed, or ErrRunning.
func (m *Manager) Add(spec, name string, f Func, options ...Option) error {
	t, err := timing(spec, options)
	if err != nil {
		return fmt.Errorf("add job %q: %w", name, err)
	}
	task := tasks.Task{
		Identity: tasks.Identity{Group: m.cfg.Group, Name: name}, Runner: callback.Runner(name), Timing: t,
	}.WithDefaults()
	if err := validate(task); err != nil {
		return fmt.Errorf("add job %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun {
		return fmt.Errorf("add job %q: %w", name, ErrRunning)
	}
	if err := m.registry.Register(name, f); err != nil {
		return fmt.Errorf("add job: %w", err)
	}
	m.jobs = append(m.jobs, task)
	return nil
}

// History is the newest runs of a job in the whole cluster, the newest first: ten at most. A run is in it a moment
// after its end. One that its process did not survive is added when the next owner takes the job up. It may be called
// at any time, also without Run.
func (m *Manager) History(ctx context.Context, name string) ([]PastRun, error) {
	list, err := runs.List(ctx, m.cfg.Store, m.key(name))
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", name, err)
	}
	return list, nil
}

func (m *Manager) key(name string) elect.Key { return elect.NewKey(m.cfg.Group, name) }

// again is how long a failure to ask for a job's key is waited out.
const again = time.Second

// Run runs this process's share of the jobs until ctx ends. Then it ends those that run, releases them, and returns
// nil. It may be called once. It returns an error that wraps elect.ErrClosed when the elector has ended before.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.begun {
		m.mu.Unlock()
		return ErrRunning
	}
	m.begun = true
	list := m.jobs
	m.mu.Unlock()

	defer m.keepHistory(ctx)()
	elector, closeElector, err := m.startElector(ctx)
	if err != nil {
		return err
	}
	supervisor, err := supervisor.New(supervisor.Config{ //nolint:contextcheck // runs have the contexts of their leases
		Instance: m.cfg.Instance, Lease: m.cfg.Lease, Registry: &m.registry, Logger: m.cfg.Logger,
		Observers: supervisor.Observers{Journal: journal{m.cfg.Instance, m.keeper, m.cfg.Logger}},
	})
	if err != nil {
		return errors.Join(err, closeElector())
	}
	defer supervisor.Close()
	m.offer(elector)
	g, inside := errgroup.WithContext(ctx)
	for _, task := range list {
		h := holder{m: m, elector: elector, supervisor: supervisor, task: task}
		g.Go(func() error { return h.run(inside) })
	}
	g.Go(func() error { // an elector that ends takes all jobs with it
		select {
		case <-inside.Done():
			return nil
		case <-elector.Done():
			return fmt.Errorf("run jobs: %w", elect.ErrClosed)
		}
	})
	err = g.Wait()
	m.offer(nil)
	return errors.Join(err, closeElector())
}

// keepHistory writes history until the function that it returns is called.
func (m *Manager) keepHistory(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var writing sync.WaitGroup
	writing.Go(func() { m.keeper.Run(ctx) })
	return func() {
		cancel()
		writing.Wait()
	}
}

// startElector starts an elector where none was given. The function ends that one.
func (m *Manager) startElector(ctx context.Context) (*elect.Elector, func() error, error) {
	if m.cfg.Elector != nil {
		return m.cfg.Elector, func() error { return nil }, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e, err := elect.Start(ctx, elect.Config{
		Store: m.cfg.Store, Member: elect.Member{Instance: m.cfg.Instance}, LeaseDuration: m.cfg.Lease,
		Logger: m.cfg.Logger,
	})
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("run jobs: %w", err)
	}
	return e, func() error {
		cancel()
		return e.Wait()
	}, nil
}

// offer has Once work with the elector; nil: no more.
func (m *Manager) offer(e *elect.Elector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.elector = e
}

// holder holds one job whenever no other process does.
type holder struct {
	m          *Manager
	elector    *elect.Elector
	supervisor *supervisor.Supervisor
	task       tasks.Task
}

func (h holder) run(ctx context.Context) error {
	for ctx.Err() == nil {
		ended := make(chan struct{})
		ok, err := h.elector.LockWith(ctx, h.task.Key(), elect.LockOptions{WaitForever: true},
			func(ctx context.Context, lease *elect.Lease) error {
				defer close(ended)
				return h.supervisor.Run(ctx, h.task, lease)
			})
		switch {
		case ok:
			h.wait(ctx, ended)
		case ctx.Err() != nil: // it was not waited for any longer
		case errors.Is(err, elect.ErrClosed), errors.Is(err, elect.ErrNotRunning):
			return fmt.Errorf("run jobs: %w", err)
		default:
			h.m.cfg.Logger.Info("A job's key could not be asked for, trying again", "key", h.task.Key(), "error",
				text(err))
			_ = clock.Sleep(ctx, again) // the loop looks at ctx
		}
	}
	return nil
}

// wait waits for the end of the hold, and asks for it when ctx ends.
func (h holder) wait(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	// Its error says that the lock was lost meanwhile, or is being released.
	_ = h.elector.Unlock(context.WithoutCancel(ctx), h.task.Key())
	<-ended
}

func text(err error) string {
	if err == nil {
		return "held by another"
	}
	return err.Error()
}

var _ supervisor.Journal = journal{}

// journal keeps the runs of this process. It implements [supervisor.Journal].
type journal struct {
	instance string
	keeper   *runs.Keeper
	log      logr.Logger
}

// Ran implements [supervisor.Journal]. Of a run that its process did not survive, that one's name is not known here.
func (j journal) Ran(key elect.Key, past taskrun.PastRun) {
	run := runs.Past(j.instance, past)
	if past.Ended.IsZero() {
		run.Instance = ""
	}
	j.keeper.Add(key, run)
}

// Missed implements [supervisor.Journal].
func (j journal) Missed(key elect.Key, tick time.Time, late time.Duration) {
	j.log.Info("A tick came late and is not run", "key", key, "tick", tick.UTC(), "duration", late)
}

// Looping implements [supervisor.Journal]: jobs with ticks do not.
func (journal) Looping(elect.Key, taskrun.CrashLoop) {}

// Failed implements [supervisor.Journal]: jobs with ticks do not.
func (journal) Failed(elect.Key, error) {}
