package etcd

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A call that used up its time in vain makes its member suspect, however short the lease. A caller who was in a greater
// hurry does not.
func TestSuspicionFollowsTheTimeout(t *testing.T) {
	late := status.FromContextError(context.DeadlineExceeded).Err()
	for _, tt := range []struct {
		timeout, after time.Duration
		want           bool
	}{
		{time.Second / 6, 160 * time.Millisecond, true},
		{time.Second / 6, 100 * time.Millisecond, false},
		{3 * time.Second, 199 * time.Millisecond, false},
		{3 * time.Second, 200 * time.Millisecond, true},
	} {
		l := &link{suspicion: suspicion(tt.timeout)}
		if got := l.silent(late, tt.after); got != tt.want || !l.silent(status.Error(codes.Unavailable, ""), 0) {
			t.Errorf("time-out %v: silent after %v: %t", tt.timeout, tt.after, got)
		}
	}
}
