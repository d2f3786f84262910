package storecheck

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// The lease that is advised is the one from which on a replica does not call the store slow.
func TestLeaseFrom(t *testing.T) {
	for _, test := range []struct {
		write, read, lease time.Duration
		want               time.Duration
		slow               bool
	}{
		{write: 2 * time.Millisecond, want: time.Second},
		{write: 2 * time.Millisecond, lease: time.Second, want: time.Second},
		{write: 200 * time.Millisecond, lease: 2 * time.Second, want: 4 * time.Second, slow: true},
		{write: 201 * time.Millisecond, lease: 15 * time.Second, want: 4100 * time.Millisecond},
		{read: 60 * time.Millisecond, lease: time.Second, want: 1200 * time.Millisecond, slow: true},
	} {
		r := Result{Write: Latency{P50Seconds: test.write.Seconds()}, Read: Latency{P50Seconds: test.read.Seconds()}}
		r.judgeLease(test.lease)
		if r.LeaseFromSeconds != test.want.Seconds() {
			t.Errorf("%+v: from %v s", test, r.LeaseFromSeconds)
		}
		if slow := len(r.Problems) == 1 && r.Problems[0].Reason == api.ProblemStoreSlow; slow != test.slow {
			t.Errorf("%+v: problems %+v", test, r.Problems)
		}
	}
}
