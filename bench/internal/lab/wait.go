//go:build linux

package lab

import (
	"context"
	"time"
)

const (
	// DefaultLease is T where a figure does not name another: that of a configuration that says nothing.
	DefaultLease = 20 * time.Second
	// Settle is how long membership rests before keys move for balance.
	Settle = 300 * time.Millisecond
	// RecordEvery is the time between two timestamps of a task: gaps are too long by up to that.
	RecordEvery = 5 * time.Millisecond
	// Patience bounds each wait.
	Patience = 90 * time.Second

	tryEvery = 50 * time.Millisecond
)

// Until repeats check until it passes; its last error is returned after Patience.
func Until(ctx context.Context, check func() error) error {
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := Pause(ctx, tryEvery); err != nil {
			return err
		}
	}
}

// Pause waits for d. The error is the cause for which ctx ended before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
