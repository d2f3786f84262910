package elect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Go makes run a Runnable that has a goroutine of its own.
func Go(run RunFunc) Runnable { return &goRun{run: run} }

// goRun calls a RunFunc on a goroutine of its own.
type goRun struct {
	run   RunFunc
	limit time.Duration // of its context; 0: none

	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil while it does not run
}

// Start implements [Runnable].
func (r *goRun) Start(lease *Lease, ended func(error)) {
	c := lease.c
	ctx, cancel := context.WithCancelCause(context.WithValue(c.ctx, insideRun{c.core}, lease.key))
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	c.work.Go(func() {
		err := errGoexit
		defer func() {
			r.mu.Lock()
			r.cancel = nil
			r.mu.Unlock()
			cancel(ErrReleased)
			ended(err)
		}()
		limited, stop := withMaxHold(ctx, r.limit)
		defer stop()
		err = guarded(limited, lease, r.run)
	})
}

// Stop implements [Runnable].
func (r *goRun) Stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel(cause)
	}
}

// errGoexit says that a run ended its goroutine instead of returning.
var errGoexit = errors.New("run called runtime.Goexit")

func withMaxHold(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ErrMaxHold)
}

// guarded calls run and turns a panic into an error: one task never takes the replica down.
func guarded(ctx context.Context, lease *Lease, run RunFunc) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			lease.c.log.Error(err, "A run panicked", "key", lease.key, "stack", string(debug.Stack()))
		}
	}()
	return run(ctx, lease)
}

// insideRun marks the contexts of runs.
type insideRun struct{ c *core }

// runKey is the key whose run ctx belongs to, if it belongs to one of this elector.
func runKey(ctx context.Context, c *core) (Key, bool) {
	key, ok := ctx.Value(insideRun{c}).(Key)
	return key, ok
}
