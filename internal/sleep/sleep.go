// Package sleep has the one pause that ends with its context.
package sleep

import (
	"context"
	"time"
)

// For waits for d. When ctx ends before, it returns the cause of that.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
