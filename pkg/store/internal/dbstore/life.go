package dbstore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed is the cause of contexts that the end of a store ended.
var ErrClosed = errors.New("the store is closed")

// Life is a store's: calls end with it, and its end waits for what it has begun, such as watches. Its methods may be
// called concurrently.
type Life struct {
	timeout time.Duration   // of calls whose context has no deadline; 0: none
	ctx     context.Context // ended by End: calls under way fail
	cancel  context.CancelCauseFunc
	begun   sync.WaitGroup

	mu    sync.Mutex
	ended bool
}

// NewLife begins one. Calls whose context has no deadline get this timeout; 0: none. The end of ctx does not end it.
func NewLife(ctx context.Context, timeout time.Duration) *Life {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &Life{timeout: timeout, ctx: ctx, cancel: cancel}
}

// Context ends with the life, and with nothing else: for what Go has begun.
func (l *Life) Context() context.Context { return l.ctx }

// End ends all calls, and waits for all that Go has begun. False: it was called before.
func (l *Life) End() bool {
	l.mu.Lock()
	before := l.ended
	l.ended = true
	l.mu.Unlock()
	if before {
		return false
	}
	l.cancel(ErrClosed)
	l.begun.Wait()
	return true
}

// Go runs f as one of those that the end waits for. False: it has ended, and f does not run.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.begun.Go(f)
	}
	return !l.ended
}

// OnEnd has f called at the end, unless stopped before.
func (l *Life) OnEnd(f func()) (stop func() bool) { return context.AfterFunc(l.ctx, f) }

// Bound gives a call its deadline, if it has none, and ends it with the store. The call releases it when it returns.
func (l *Life) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := l.OnEnd(func() { cancel(ErrClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	ctx, cancelTimeout := Bound(ctx, l.timeout)
	return ctx, func() {
		cancelTimeout()
		release()
	}
}

// Bound gives ctx a deadline, if it has none. A timeout of 0 is none.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}
