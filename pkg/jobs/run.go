package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/tasks"
)

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
	supervisor, err := tasks.NewSupervisor(tasks.Config{ //nolint:contextcheck // runs have the contexts of their leases
		Instance: m.cfg.Instance, Lease: m.cfg.Lease, Registry: &m.registry, Logger: m.cfg.Logger,
		Journal: journal{m.cfg.Instance, m.keeper, m.cfg.Logger},
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
	supervisor *tasks.Supervisor
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
			_ = sleep.For(ctx, again) // the loop looks at ctx
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
