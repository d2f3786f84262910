package tasks

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// callback calls the task's Go function and waits until it returns, whatever that takes.
func (r *running) callback(ctx context.Context, st start) ending {
	callback, ok := r.s.cfg.Registry.Lookup(r.task.Callback)
	if !ok {
		return ending{err: fmt.Errorf("not started: callback %q is not registered", r.task.Callback), code: 1}
	}
	run := Run{
		Task: r.task, Token: st.token, Lease: r.hold, ScheduledAt: st.scheduledAt, Attempt: st.attempt,
		Logger: r.log.WithValues("token", st.token),
	}
	r.report(StateRunning)
	returned := make(chan error, 1)
	go r.call(ctx, callback, run, returned)
	select {
	case err := <-returned:
		return callbackEnding(ctx, err)
	case <-ctx.Done():
	}
	r.report(StateStopping)
	alarm := r.watchStuck()
	defer alarm.end()
	return callbackEnding(ctx, <-returned)
}

// callbackEnding cannot tell a function that had finished from one that gave up: after ctx has ended both are cut.
func callbackEnding(ctx context.Context, err error) ending {
	end := ending{err: err, byItself: true, cut: ctx.Err() != nil}
	if err != nil {
		end.code = 1
	}
	return end
}

// errGoexit says a callback ended its goroutine.
var errGoexit = errors.New("callback called runtime.Goexit")

// call runs the callback on a goroutine of its own, so that neither a panic nor Goexit ends anything else.
func (r *running) call(ctx context.Context, callback Callback, run Run, returned chan<- error) {
	err := errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("callback panicked: %v", p)
			run.Logger.Error(fmt.Errorf("%w\n%s", err, debug.Stack()), "callback panicked")
		}
		returned <- err
	}()
	err = callback(ctx, run)
}
