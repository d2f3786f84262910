package clock

import (
	"context"
	"time"
)

// Sleep waits for d. It returns the cause of ctx if ctx is done before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
