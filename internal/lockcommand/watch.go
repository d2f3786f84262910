package lockcommand

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/pkg/mutex"
)

// stopTimeout is how long a command may take to end after --max-hold. It is that of tasks.
const stopTimeout = 10 * time.Second

// watch is the time while the command runs.
type watch struct {
	*Run

	process worker.Process
	hold    context.Context //nolint:containedctx // of the lock, which may end before the command does
	relay   relay
	hard    <-chan time.Time // when nothing of the command may be left; nil: the lock is held
}

// run passes signals on, ends the command when the hold has ended, and returns once nothing of it is left.
func (w *watch) run() Outcome {
	ended := w.hold.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case s := <-w.Guard.Signals():
			w.relay.tell(s, time.Now())
		case s := <-w.Own:
			if s, ok := s.(syscall.Signal); ok {
				w.relay.got(s, time.Now())
			}
		case <-timer.C:
		case <-ended:
			ended = nil
			w.stop()
		case <-w.hard:
			w.Guard.Abandon()
		case a := <-w.Guard.Alarms():
			w.report("SIGKILL has not helped against processes %v: the lock stays held until they are gone", a.PIDs)
		case <-w.process.Gone():
			return w.outcome()
		case <-w.Guard.Lost():
			return w.lost()
		}
		for _, s := range w.relay.due(time.Now()) {
			w.process.Pass(s)
		}
		if left, ok := w.relay.next(time.Now()); ok {
			timer.Reset(left)
		}
	}
}

// stop asks the command to end, in time: before others may have the lock. A lease that is lost by its deadline leaves a
// twentieth of its duration until SIGKILL. The guard keeps to that on its own as well.
func (w *watch) stop() {
	if errors.Is(context.Cause(w.hold), mutex.ErrMaxHold) {
		w.process.Stop(syscall.SIGTERM, stopTimeout) // the lease goes on, and others wait
		return
	}
	lease := w.Elector.LeaseDuration
	w.process.Stop(syscall.SIGTERM, lease/20)
	w.hard = time.After(lease / 10)
}

// outcome is how it ended, once nothing of the command is left.
func (w *watch) outcome() Outcome {
	if w.hold.Err() != nil {
		return w.ended(context.Cause(w.hold))
	}
	<-w.process.Exited()
	return Outcome{Code: exitCode(w.process.Exit())}
}

// lost is the outcome without a guard: this process has killed what it could find.
func (w *watch) lost() Outcome {
	out := guardLost()
	if w.hold.Err() != nil {
		out.Err = w.ended(context.Cause(w.hold)).Err
	}
	return out
}
