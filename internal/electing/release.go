// Package releasing has the contexts of what is done last: to give something back, and to keep how far one came. A
// program that is asked to end does so under a context that has ended with the request, as in defer held.Unlock(ctx).
// If that counted, the program would be gone before the store knows of it, and others would wait for the whole lease.
package releasing

import (
	"context"
	"errors"
	"time"
)

// Limit is the longest time that a release goes on after its context.
const Limit = 10 * time.Second

// Context is ctx for a release under a lease: its end counts only after half of the lease, and after [Limit] at the
// latest. A deadline that comes during the release counts at once, since it was set for the release. The cause is that
// of ctx. A lease of 0 or less is taken to be long. Call the function that it returns when the release is over.
func Context(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	limit := Limit
	if lease > 0 {
		limit = min(lease/2, Limit)
	}
	before := ctx.Err() != nil
	release, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if before || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-release.Done():
			}
		}
		end(context.Cause(ctx))
	})
	return release, func() {
		stop()
		end(nil)
	}
}
