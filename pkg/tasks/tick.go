package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// Causes of a run at a tick being told to stop.
var (
	errTimeout  = errors.New("run took longer than its timeout")
	errReplaced = errors.New("the next tick takes the place of this run")
)

const (
	// maxSleep bounds each wait for a tick: a wall clock may be set meanwhile, which timers do not see.
	maxSleep = time.Minute
	// lateTick is how late a tick that this replica waited for may be without counting as missed.
	lateTick = 30 * time.Second
)

// ticking is the loop that fires a task's ticks.
type ticking struct {
	*running
	schedule Schedule
	last     time.Time // ticks up to here have been dealt with
	pending  time.Time // a tick to fire as soon as no run goes, zero: none
	current  *tickRun  // the run that goes, nil: none
}

// tickRun is a run at a tick, on a goroutine of its own.
type tickRun struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // of the lock, set before done is closed
}

// tick fires the task at each tick for as long as it is owned.
func (r *running) tick(ctx context.Context) error {
	schedule, err := r.task().schedule()
	if err != nil {
		r.log.Error(err, "task has no schedule")
		r.report(StateFailed, lastError(err))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l := &ticking{running: r, schedule: schedule}
	l.begin(wallclock.Now())
	err = l.loop(ctx)
	if l.current != nil {
		<-l.current.done // its context ended with ctx, or because the lock could not be advanced
	}
	return err
}

// begin looks at what was fired before, here or elsewhere, and at what was missed meanwhile.
func (l *ticking) begin(now time.Time) {
	before := max(l.status.LastTick, l.status.FirstSeen)
	if before == 0 { // declared for the first time: nothing was missed
		before = now.UnixMilli()
		l.status.FirstSeen = before
	}
	if l.task().CatchUp == CatchUpLast {
		l.pending = newest(l.schedule, time.UnixMilli(before), now, l.task().CatchUpWindow)
	}
	l.last = now
	if fired := time.UnixMilli(l.status.LastTick); fired.After(now) {
		l.last = fired // the owner before was ahead by its clock; what it fired stays fired
	}
}

func (l *ticking) loop(ctx context.Context) error {
	for {
		if l.current == nil && !l.pending.IsZero() {
			l.fire(ctx)
		}
		next := l.schedule.Next(l.last)
		l.showNext(next)
		wait := maxSleep
		if !next.IsZero() {
			wait = min(wait, max(0, next.Sub(wallclock.Now()))) // by the wall clock
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-l.runDone():
			timer.Stop()
			if err := l.current.err; err != nil {
				return err
			}
			l.current = nil
		case <-timer.C:
			l.due(next, wallclock.Now())
		}
	}
}

// due deals with a tick whose time has come.
func (l *ticking) due(next, now time.Time) {
	if next.IsZero() || now.Before(next) {
		return
	}
	// Of several that came at once, since the clock was set or this machine slept, the newest counts, as after a fail-over.
	tick := newest(l.schedule, l.last, now, now.Sub(next))
	l.last = tick
	late := now.Sub(tick)
	switch {
	case late > lateTick && (l.task().CatchUp == CatchUpNone || late > l.task().CatchUpWindow):
		l.log.Info("tick was missed", "duration", late)
	case l.current == nil:
		l.pending = tick
	case l.task().Overlap == OverlapReplace:
		l.pending = tick
		l.current.cancel(errReplaced)
	default:
		l.log.V(1).Info("tick skipped, the run before it still goes")
		l.s.cfg.Metrics.RunDone(l.hold.Key(), ResultSkipped, 0)
	}
}

// fire starts the run at the pending tick.
func (l *ticking) fire(ctx context.Context) {
	tick := l.pending
	l.pending = time.Time{}
	ctx, cancel := context.WithCancelCause(ctx)
	run := &tickRun{cancel: cancel, done: make(chan struct{})}
	l.current = run
	go func() {
		defer close(run.done)
		defer cancel(nil)
		run.err = l.runTick(ctx, tick)
	}()
}

// runDone is closed when the run that goes has ended; nil, which never is, when none goes.
func (l *ticking) runDone() <-chan struct{} {
	if l.current == nil {
		return nil
	}
	return l.current.done
}

// showNext notes the next tick: in the state waiting, or beside that of the run that goes.
func (l *ticking) showNext(next time.Time) {
	if l.current == nil {
		l.report(StateWaiting, nextRunAt(next))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	nextRunAt(next)(&l.status)
}

// runTick fires one tick: the lock is advanced to it, so that no other replica does, and then it is tried as often as the
// task says. Its error says that the lock could not be advanced.
func (r *running) runTick(ctx context.Context, tick time.Time) error {
	if r.hold.Status().LastTick >= tick.UnixMilli() {
		return nil
	}
	for attempt := 1; ; attempt++ {
		token, err := r.advance(ctx, StateStarting, func(s *elect.TaskStatus) { s.LastTick = tick.UnixMilli() })
		if err != nil {
			if errors.Is(err, errReplaced) {
				return nil
			}
			return err
		}
		if r.tryTick(ctx, Start{Token: token, Attempt: attempt, ScheduledAt: tick}) {
			return nil
		}
	}
}

// tryTick runs one try, and says whether it was the last: it succeeded, was told to stop, or there are no more. Else it has waited for
// the next one's time.
func (r *running) tryTick(ctx context.Context, st Start) (last bool) {
	try, cancel := ctx, context.CancelFunc(func() {})
	if timeout := r.task().Timeout; timeout > 0 {
		try, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
	}
	defer cancel()
	began := time.Now()
	end := r.once(try, st)
	took := time.Since(began)
	result, err := tickResult(end, context.Cause(try))
	r.s.cfg.Metrics.RunDone(r.hold.Key(), result, took)
	if result == ResultStopped || result == ResultReplaced {
		return true
	}
	if result == ResultSucceeded {
		r.log.V(1).Info("run succeeded", "token", st.Token, "duration", took)
		r.set(StateRunning, []func(*elect.TaskStatus){lastError(nil)})
		return true
	}
	r.log.Error(err, "run failed", "token", st.Token, "duration", took)
	if st.Attempt >= r.task().Retry.Attempts {
		r.set(StateRunning, []func(*elect.TaskStatus){lastError(err)})
		return true
	}
	r.report(StateBackoff, lastError(err))
	return !sleep(ctx, r.task().Retry.Backoff.delay(st.Attempt-1))
}

// tickResult tells how a try ended, given why it was told to stop, if it was.
func tickResult(end Ending, cause error) (Result, error) {
	switch {
	case !end.Cut && end.Err == nil:
		return ResultSucceeded, nil
	case !end.Cut:
		return ResultFailed, end.Err
	case errors.Is(cause, errTimeout):
		return ResultTimeout, errors.Join(errTimeout, end.Err)
	case errors.Is(cause, errReplaced):
		return ResultReplaced, nil
	default:
		return ResultStopped, nil
	}
}
