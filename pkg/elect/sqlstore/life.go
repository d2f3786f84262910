package sqlstore

import (
	"context"
	"sync"
)

// life is a store's: calls enter it, and its end waits for them.
type life struct {
	closing context.Context // ends with Close, and the calls under way with it
	close   context.CancelCauseFunc
	mu      sync.Mutex // guards closed against a call that enters
	closed  bool
	calls   sync.WaitGroup
	once    sync.Once
	ended   chan struct{} // closed when Close has let go of everything
	err     error
}

func (l *life) begin(ctx context.Context) {
	l.closing, l.close = context.WithCancelCause(context.WithoutCancel(ctx))
	l.ended = make(chan struct{})
}

// enter counts a call in, unless the store is closed. Its context ends with the store as well.
func (l *life) enter(ctx context.Context) (_ context.Context, done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, errClosed
	}
	l.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.closing, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		l.calls.Done()
	}, nil
}

// end ends all calls, waits for them, and then runs last, once. False: ctx ended first.
func (l *life) end(ctx context.Context, last func() error) (bool, error) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close(errClosed)
	l.once.Do(func() {
		go func() {
			defer close(l.ended)
			l.calls.Wait()
			l.err = last()
		}()
	})
	select {
	case <-l.ended:
		return true, l.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
