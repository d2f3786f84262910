package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// newestWithin is how far back the tick is looked for that a run is for: wrappers may hold a job up.
const newestWithin = 24 * time.Hour

// Once is a wrapper for a cron.Cron: of all processes that fire a tick of the job, only one runs it. loc is the
// location of the cron.Cron, by which every process has to go; nil: time.Local. A process runs nothing while
// [Manager.Run] does not go on, or while the store does not answer.
//
// A tick that comes while a run of the job goes on anywhere is skipped. One that was missed is not caught up. A job of
// cron takes no context, so it cannot be ended when the lease is lost: see the package's comment. [Manager.Add] has
// none of these limits.
//
// It fails for cron.Every and @every, whose ticks differ between processes. Use [Manager.Add] for these.
func (m *Manager) Once(name string, schedule cron.Schedule, loc *time.Location) (cron.JobWrapper, error) {
	if name == "" {
		return nil, errors.New("once: name: must not be empty")
	}
	if _, differs := schedule.(cron.ConstantDelaySchedule); differs || schedule == nil {
		return nil, fmt.Errorf("once %q: schedule %T: must be the same in all processes, as five fields of cron are",
			name,
			schedule)
	}
	if loc == nil {
		loc = time.Local
	}
	return func(job cron.Job) cron.Job { return &once{m, name, schedule, loc, job} }, nil
}

// AddJob is AddJob of a cron.Cron, for a job of which only one process runs each tick: see [Manager.Once].
func (m *Manager) AddJob(c *cron.Cron, spec, name string, job cron.Job) (cron.EntryID, error) {
	late := &lateJob{made: make(chan struct{})} // the cron.Cron reads the spec, by its own parser
	id, err := c.AddJob(spec, late)
	if err != nil {
		return 0, fmt.Errorf("add job %q: %w", name, err)
	}
	wrap, err := m.Once(name, c.Entry(id).Schedule, c.Location())
	if err != nil {
		c.Remove(id)
		close(late.made)
		return 0, err
	}
	late.job = wrap(job)
	close(late.made)
	return id, nil
}

// lateJob is a job that is made after it was added.
type lateJob struct {
	made chan struct{}
	job  cron.Job // nil: it was removed
}

// Run implements [cron.Job].
func (l *lateJob) Run() {
	if <-l.made; l.job != nil {
		l.job.Run()
	}
}

// once runs a job for ticks that no process has run.
type once struct {
	m        *Manager
	name     string
	schedule cron.Schedule
	loc      *time.Location
	job      cron.Job
}

// Run implements [cron.Job]. It returns when the run is over, or at once when another process has it.
func (o *once) Run() {
	now := clock.Wall()
	tick := schedule.Newest(o.schedule, now.In(o.loc), newestWithin)
	log := o.m.cfg.Logger.WithValues("key", o.m.key(o.name), "tick", tick.UTC())
	o.m.mu.Lock()
	elector := o.m.elector
	o.m.mu.Unlock()
	if elector == nil || tick.IsZero() {
		log.Info("A tick is not run: the manager of jobs does not run")
		return
	}
	ended := make(chan struct{})
	ok, err := elector.Lock(context.Background(), o.m.key(o.name), func(ctx context.Context, lease *elect.Lease) error {
		defer close(ended)
		return o.run(ctx, lease, tick, log)
	})
	switch {
	case ok:
		<-ended
	case err != nil:
		log.Error(err, "A tick is not run: its key could not be asked for")
	}
}

// run runs the job unless the lock says that this tick, or a later one, was run before.
func (o *once) run(ctx context.Context, lease *elect.Lease, tick time.Time, log logr.Logger) error {
	status, began := lease.Status(), clock.Wall()
	if fired := status.CorrectTicks(began); !fired.IsZero() {
		log.Info("The clock of a process was far ahead when a tick was run: ticks count from now on",
			"ahead", fired.UTC())
	}
	if tick.UnixMilli() <= status.LastTick {
		return nil
	}
	status.LastTick, status.State, status.Since = tick.UnixMilli(), record.StateRunning, began.UnixMilli()
	token, err := lease.Advance(ctx, status) // noted before it runs: it is never run twice
	if err != nil {
		log.Error(err, "A tick is not run: it could not be noted")
		return err
	}
	past := record.Run{
		Tick: status.LastTick, Start: status.Since, Result: record.RunSucceeded, Attempt: 1, Instance: o.m.cfg.Instance,
		Token: token,
	}
	if err = o.work(); err != nil {
		log.Error(err, "A run has failed")
		past.Result, past.ExitCode, past.Error = record.RunFailed, 1, err.Error()
	}
	past.End = clock.Wall().UnixMilli()
	o.m.keeper.Add(lease.Key(), past)
	status = lease.Status()
	status.State, status.Since = record.StateWaiting, past.End
	lease.Report(status)
	return err
}

// work runs the job, and returns its panic as an error.
func (o *once) work() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	o.job.Run()
	return nil
}
