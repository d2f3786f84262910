package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
	"github.com/shardctl/shardctl/pkg/tasks/runs"
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
	task := tasks.Task{Group: m.cfg.Group, Name: name, Runner: callback.Runner(name), Timing: t}.WithDefaults()
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
