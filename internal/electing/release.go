package electing

import (
	"context"
	"errors"
	"time"
)

// ReleaseLimit is the longest time that a release goes on after its context.
const ReleaseLimit = 10 * time.Second

// Release returns a context in which something is given back that is held under a lease. The end of ctx counts in it
// only after half of the lease, and after [ReleaseLimit] at the latest. A program that is asked to end releases under a
// context that has ended with the request, as in defer held.Unlock(ctx): if that counted, the program would be gone
// before the store knows of the release, and others would wait for the whole lease.
//
// A deadline of ctx that comes during the release counts at once, since it was set for the release. The cause is that
// of ctx. A lease of 0 or less is taken to be long. Call the function that Release returns when the release is over.
func Release(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	limit := ReleaseLimit
	if lease > 0 {
		limit = min(lease/2, ReleaseLimit)
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
