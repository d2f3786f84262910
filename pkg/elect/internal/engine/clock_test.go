package engine

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// testLease is the length of every lease.
const testLease = 20 * time.Second

// testParams are what follows from Lease.
func testParams(t *testing.T) protocol.Params {
	t.Helper()
	p, err := protocol.NewParams(testLease, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testAt is d after the test's beginning, on this machine's clocks: no boot lies near.
func testAt(d time.Duration) protocol.Instant {
	return protocol.Instant{Mono: time.Hour + d, Boot: time.Hour + d}
}

// testMoment is At with the store's clock, on which one counts from 1,000,000 ms, and with a valid lease.
func testMoment(d time.Duration) protocol.Moment {
	ms := 1_000_000 + d.Milliseconds()
	return protocol.Moment{Now: testAt(d), Clock: ms, Rev: ms, Valid: true}
}
