package subscribetest

import (
	"context"
	"errors"
	"time"
)

const (
	patience = 20 * time.Second // for what should come at once
	soon     = 10 * time.Second // for a return after a context has ended
	moment   = 300 * time.Millisecond
)

// reporter is what checks use of a *testing.T. The suite's own tests put another in its place.
type reporter interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// calls are calls of a source, which must return in time.
type calls struct{ reporter }

// bounded calls f with a context that ends after limit, and fails when f then does not return.
func (c calls) bounded(what string, limit time.Duration, f func(ctx context.Context)) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
	case <-time.After(limit + soon):
		c.Fatalf("%s had not returned %s after its context ended", what, soon)
	}
}

// isContext says whether an error says that a context has ended.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
