package electing

import (
	"context"
	"time"
)

// runKey is how contexts know the run that they belong to.
type runKey struct{}

// OfRun returns the context of a run that begins with ctx. [Beyond] recognises it.
func OfRun(ctx context.Context) context.Context { return context.WithValue(ctx, runKey{}, ctx) }

// Beyond returns a context for the last thing that a run does, such as to keep how far it came. When the run that ctx
// belongs to is asked to end, the context goes on for as long as left says then. Whatever else ends ctx counts at once,
// as does its own deadline. The cause is that of ctx. Call the function that Beyond returns when it is done.
func Beyond(ctx context.Context, left func() time.Duration) (context.Context, context.CancelFunc) {
	run, ok := ctx.Value(runKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	beyond, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if run.Err() != nil && context.Cause(run) == context.Cause(ctx) { //nolint:errorlint // the very same
			timer := time.NewTimer(left())
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-beyond.Done():
			}
		}
		end(context.Cause(ctx))
	})
	limited, unlimit := beyond, context.CancelFunc(func() {})
	if at, ok := ctx.Deadline(); ok {
		if end, ok := run.Deadline(); !ok || at.Before(end) {
			limited, unlimit = context.WithDeadline(beyond, at)
		}
	}
	return limited, func() {
		stop()
		unlimit()
		end(nil)
	}
}
