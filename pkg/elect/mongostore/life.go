package mongostore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errClosed is the cause of contexts that Close ended.
var errClosed = errors.New("the store is closed")

// life is a store's: calls end with it, and its end waits for watches.
type life struct {
	timeout  time.Duration   // of calls whose context has no deadline
	ctx      context.Context // ended by Close: calls under way fail
	end      context.CancelCauseFunc
	watchers sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

func newLife(ctx context.Context, timeout time.Duration) *life {
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	return &life{timeout: timeout, ctx: ctx, end: end}
}

// over ends all. False: it was over before.
func (l *life) over() bool {
	l.mu.Lock()
	before := l.closed
	l.closed = true
	l.mu.Unlock()
	if before {
		return false
	}
	l.end(errClosed)
	l.watchers.Wait()
	return true
}

// watch runs f as one of those that the end waits for. False: it is over.
func (l *life) watch(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.watchers.Go(f)
	}
	return !l.closed
}

// onEnd has f called at the end, unless stopped before.
func (l *life) onEnd(f func()) (stop func() bool) { return context.AfterFunc(l.ctx, f) }

// bound gives a call its deadline, if it has none, and ends it when the store is closed.
func (l *life) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := l.onEnd(func() { cancel(errClosed) })
	release := func() {
		stop()
		cancel(nil)
	}
	if _, has := ctx.Deadline(); has {
		return ctx, release
	}
	ctx, cancelTimeout := context.WithTimeout(ctx, l.timeout)
	return ctx, func() {
		cancelTimeout()
		release()
	}
}
