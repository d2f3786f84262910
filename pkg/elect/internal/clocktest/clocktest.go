// Package clocktest is the time in tests of the elector's components: it stands still until a test moves it.
package clocktest

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Lease is the length of every lease.
const Lease = 20 * time.Second

// Params are what follows from Lease.
func Params(t *testing.T) protocol.Params {
	t.Helper()
	p, err := protocol.NewParams(Lease, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// At is d after the test's beginning, on this machine's clocks: no boot lies near.
func At(d time.Duration) protocol.Instant {
	return protocol.Instant{Mono: time.Hour + d, Boot: time.Hour + d}
}

// Moment is At with the store's clock, on which one counts from 1,000,000 ms, and with a valid lease.
func Moment(d time.Duration) protocol.Moment {
	ms := 1_000_000 + d.Milliseconds()
	return protocol.Moment{Now: At(d), Clock: ms, Rev: ms, Valid: true}
}
