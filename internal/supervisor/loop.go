package supervisor

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/supervisor/job"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// loop runs the tasks that are held: it passes what happens to their jobs, and does what those say. One goroutine
// does so for all of them, and never waits for the work.
type loop struct {
	shared *shared

	mu       sync.Mutex
	inbox    []func() // what has happened; only the loop's goroutine calls them
	declared map[elect.Key]*tasks.Task
	wake     chan struct{} // has an element while there may be something in the inbox
	closed   chan struct{}
	over     chan struct{} // closed when the goroutine has ended

	// The rest belongs to the goroutine.
	held   map[elect.Key]*held // of the declared tasks
	timers timers[*held]
	last   time.Time // what the wall clock showed when it passed last
}

func newLoop(m *shared) *loop {
	return &loop{
		shared: m, wake: make(chan struct{}, 1), closed: make(chan struct{}), over: make(chan struct{}),
		held: map[elect.Key]*held{},
	}
}

// post hands do to the goroutine. It does not wait.
func (l *loop) post(do func()) {
	l.mu.Lock()
	l.inbox = append(l.inbox, do)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *loop) run() {
	defer close(l.over)
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for {
		select {
		case <-l.wake:
		case <-sleep.C:
		case <-l.closed:
			return
		}
		l.mu.Lock()
		inbox := l.inbox
		l.inbox = nil
		l.mu.Unlock()
		for _, do := range inbox {
			do()
		}
		l.pass(readClocks())
		if d, ok := l.timers.wait(readClocks()); ok {
			sleep.Reset(d)
		}
	}
}

// pass wakes the jobs whose time has come, and all that wait for a tick where the wall clock was set back: by what it
// showed before, their time may come very late.
func (l *loop) pass(at job.Moment) {
	if at.Wall.Before(l.last) {
		for _, alarm := range slices.Clone(l.timers.byWall) {
			l.apply(alarm.owner, alarm.owner.job.Wake(at))
		}
	}
	l.last = at.Wall
	for h, ok := l.timers.due(at); ok; h, ok = l.timers.due(at) {
		l.apply(h, h.job.Wake(at))
	}
}

// close ends the goroutine.
func (l *loop) close() {
	close(l.closed)
	<-l.over
}

// begin takes up a task that is held from now on.
func (l *loop) begin(h *held) {
	l.post(func() {
		task := l.taskOf(h)
		if task == nil {
			h.ended(fmt.Errorf("task %s is not declared", h.key))
			return
		}
		if h.given == nil {
			l.held[h.key] = h
		}
		l.shared.output.Kept.Open(h.key, h.hold.Token())
		h.job = job.New(task, h.hold.Status())
		if run, ok := job.CutOff(task, h.job.Status()); ok {
			l.shared.cfg.Journal.Ran(h.key, run)
		}
		l.apply(h, h.job.Begin(l.shared.asked(h.key), h.hold.Token(), readClocks()))
	})
}

// stop has the task end. What runs is stopped at once, also while the goroutine is busy.
func (l *loop) stop(h *held, cause error) {
	l.post(func() {
		if h.job != nil {
			l.apply(h, h.job.Stopped(cause, readClocks()))
		}
	})
	h.cancel.stop(cause)
}

// declare replaces the tasks, and returns those that are no longer among them.
func (l *loop) declare(all []*tasks.Task) (gone []elect.Key) {
	next := make(map[elect.Key]*tasks.Task, len(all))
	for _, t := range all {
		next[t.Key()] = complete(t)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.declared {
		if next[key] == nil {
			gone = append(gone, key)
		}
	}
	l.declared = next
	l.inbox = append(l.inbox, l.redeclare)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return gone
}

// redeclare gives the jobs their tasks as declared now. One that is gone goes on until its key is released.
func (l *loop) redeclare() {
	for _, h := range l.held {
		if task := l.taskOf(h); task != nil {
			l.apply(h, h.job.Changed(task, readClocks()))
		}
	}
}

// asked gives the jobs what operators ask of them now.
func (l *loop) asked() {
	for _, h := range l.held {
		if a := l.shared.asked(h.key); a != h.job.Asked() {
			l.apply(h, h.job.Ask(a, h.hold.Token(), readClocks()))
		}
	}
}

// setLoad notes the load of a task that is held, where it is news.
func (l *loop) setLoad(key elect.Key, load float64) {
	l.post(func() {
		if h := l.held[key]; h != nil {
			l.apply(h, h.job.Loaded(load, readClocks()))
		}
	})
}

// taskOf is the held key's task as it is declared now; nil: it is not.
func (l *loop) taskOf(h *held) *tasks.Task {
	if h.given != nil {
		return h.given
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.declared[h.key]
}

// apply does what a job says.
func (l *loop) apply(h *held, fx job.Effects) {
	if fx.Cut != nil {
		h.cancel.cut(fx.Cut)
	}
	l.observe(h, fx)
	if fx.Fresh {
		h.run = nil
	}
	if h.run != nil {
		h.run.declare(h.job.Task())
	}
	if h.job.Reports(fx) && h.hold.Status() != h.job.Status() {
		h.hold.Report(h.job.Status()) // a task that waits should cost no writes
	}
	switch {
	case fx.Over != nil:
		l.end(h, fx.Over)
		return
	case fx.Run:
		l.start(h)
	case fx.Leave:
		l.leave(h)
	case h.job.Waiting():
		h.run = nil // nothing is kept for a task that waits
	}
	tick, retry := h.job.Times()
	l.timers.set(&h.wakeups, tick, retry)
}

// start runs the job's start, once the lock was advanced where it has no token.
func (l *loop) start(h *held) {
	if h.run == nil {
		h.run = l.running(h)
	}
	run, start, status := h.run, h.job.Start(), h.job.Status()
	ctx, done := h.cancel.context()
	advanced := func(token int64) { l.post(func() { l.apply(h, h.job.Advanced(token)) }) }
	go run.attempt(ctx, start, status, advanced, func(r job.Attempt) {
		done()
		l.post(func() {
			l.apply(h, h.job.Ended(l.shared.asked(h.key), r, readClocks()))
		})
	})
}

// leave lets the runner take leave, which may take as long as the remote lease.
func (l *loop) leave(h *held) {
	run := h.run
	go func() {
		run.leave()
		l.post(func() { l.apply(h, h.job.Left(readClocks())) })
	}()
}

// running is what the task runs with. What it reports counts for as long as it is this.
func (l *loop) running(h *held) *taskRuns {
	r := newTaskRuns(l.shared, h.job.Task(), h.hold)
	r.report = func(state string, change ...func(*elect.TaskStatus)) {
		l.post(func() {
			if h.run == r {
				l.apply(h, h.job.Reported(state, change, readClocks()))
			}
		})
	}
	return r
}

// end says that nothing of the task is left.
func (l *loop) end(h *held, err error) {
	l.timers.set(&h.wakeups, time.Time{}, time.Time{})
	h.run = nil
	if l.held[h.key] == h {
		delete(l.held, h.key)
	}
	l.shared.output.Kept.Release(h.key)
	h.ended(err)
}

// observe counts and logs what a job has found.
func (l *loop) observe(h *held, fx job.Effects) {
	for _, run := range fx.Ended {
		l.count(h, run)
	}
	journal := l.shared.cfg.Journal
	if fx.Missed.Late > 0 {
		l.shared.log(h.hold).Info(
			"A tick was missed", "tick", tasks.Start{ScheduledAt: fx.Missed.At}.Tick(), "duration", fx.Missed.Late,
		)
		journal.Missed(h.key, fx.Missed.At, fx.Missed.Late)
	}
	if !fx.Ahead.IsZero() {
		l.shared.log(h.hold).Info(
			"The clock was far ahead when a tick was fired, and has been set back: ticks count from now on",
			"tick", tasks.Start{ScheduledAt: fx.Ahead}.Tick(),
		)
	}
	if fx.Looping.Failures > 0 {
		journal.Looping(h.key, fx.Looping)
	}
	if fx.Invalid != nil {
		l.shared.log(h.hold).Error(fx.Invalid, "The task cannot run: its schedule is wrong")
	}
	if errors.Is(fx.Over, taskrun.ErrDone) {
		l.shared.log(h.hold).Info("The task has ended for good", "state", h.job.Status().State)
		if h.job.HasRun() && !h.job.Status().Outcome.Succeeded {
			journal.Failed(h.key, fx.Over)
		}
	}
}

func (l *loop) count(h *held, run job.Ran) {
	l.shared.cfg.Metrics.RunDone(h.key, run.Result, run.Took)
	if job.KeepsRuns(h.job.Task()) {
		ended := time.Now()
		l.shared.cfg.Journal.Ran(h.key, taskrun.PastRun{
			Start: run.Start, Began: ended.Add(-run.Took), Ended: ended, Result: run.Result, Code: run.Code,
			Err:   run.Err,
			Again: run.Again,
		})
	}
	log := logger(run.Trace, l.shared.log(h.hold)).WithValues("result", run.Result)
	switch {
	case run.Result == taskrun.ResultSkipped:
		log.V(1).Info("A tick was skipped: the run before it still goes", "tick", run.Start.Tick())
	case run.Result == taskrun.ResultStopped && run.Err != nil: // as most commands end that are asked to
		log.Info("Task ended", "token", run.Start.Token, "duration", run.Took, "error", run.Err.Error())
	case run.Err != nil:
		log.Error(run.Err, "Task ended", "token", run.Start.Token, "duration", run.Took)
	case h.job.Ticks():
		log.V(1).Info("Task ended", "token", run.Start.Token, "duration", run.Took)
	default:
		log.Info("Task ended", "token", run.Start.Token, "duration", run.Took)
	}
}

// complete returns t itself when all its fields are filled in, as those of a configuration are, else a copy: tasks
// are many.
func complete(t *tasks.Task) *tasks.Task {
	all := t.WithDefaults()
	was, is := *t, all
	was.Labels, was.Runner, is.Labels, is.Runner = nil, nil, nil, nil // they have no defaults
	if reflect.DeepEqual(was, is) {
		return t
	}
	return &all
}

// runnable is the work of a key that the elector starts and stops. It implements [elect.Runnable].
type runnable struct {
	loop *loop
	mu   sync.Mutex
	held *held
}

// Start takes the task up.
func (r *runnable) Start(lease *elect.Lease, ended func(error)) {
	h := newHeld(lease, nil, func(err error) {
		if errors.Is(err, taskrun.ErrDone) {
			lease.Suspend()
		}
		ended(err)
	})
	r.mu.Lock()
	r.held = h
	r.mu.Unlock()
	r.loop.begin(h)
}

// Stop has the task end.
func (r *runnable) Stop(cause error) {
	r.mu.Lock()
	h := r.held
	r.mu.Unlock()
	if h != nil {
		r.loop.stop(h, cause)
	}
}
