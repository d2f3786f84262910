package electing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
)

// When a release ends that began a second after its context was made, by how that context ends.
func TestRelease(t *testing.T) {
	errSignal := errors.New("signal")
	for name, tt := range map[string]struct {
		deadline, canceled time.Duration // of the caller's context, after it was made; 0: never
		lease, wants       time.Duration // wants: after the release began; 0: it does not end
		cause              error
	}{
		"no end":                     {lease: time.Minute},
		"ended before":               {canceled: 1, lease: 8 * time.Second, wants: 4 * time.Second, cause: errSignal},
		"ended before, a long lease": {canceled: 1, lease: time.Hour, wants: electing.ReleaseLimit, cause: errSignal},
		"ended before, no lease":     {canceled: 1, wants: electing.ReleaseLimit, cause: errSignal},
		"ended meanwhile": {
			canceled: 2 * time.Second, lease: 8 * time.Second, wants: 5 * time.Second, cause: errSignal,
		},
		"deadline before": {
			deadline: 1, lease: 8 * time.Second, wants: 4 * time.Second, cause: context.DeadlineExceeded,
		},
		"deadline meanwhile": {
			deadline: 2 * time.Second, lease: 8 * time.Second, wants: time.Second, cause: context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.canceled > 0 {
					time.AfterFunc(tt.canceled, func() { cancel(errSignal) })
				}
				if tt.deadline > 0 {
					limited, stop := context.WithTimeout(ctx, tt.deadline)
					defer stop()
					ctx = limited
				}
				time.Sleep(time.Second)
				release, done := electing.Release(ctx, tt.lease)
				defer done()
				began := time.Now()
				select {
				case <-release.Done():
				case <-time.After(24 * time.Hour):
					if tt.wants > 0 {
						t.Fatalf("it does not end, want after %v", tt.wants)
					}
					return
				}
				if took := time.Since(began); took != tt.wants || !errors.Is(context.Cause(release), tt.cause) {
					t.Errorf("ended after %v with %v, want %v and %v", took, context.Cause(release), tt.wants, tt.cause)
				}
			})
		})
	}
}
