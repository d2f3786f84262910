//go:build linux

package chaos

import (
	"github.com/shardctl/shardctl/test/e2e/history"
)

// A guard that is silent for T/4 counts as gone, and so a machine that stands still ends replicas. Five of its pings
// fit into that time. Where this process could not even sleep for as long as one of them, it cannot be said that a
// replica ended without a reason.
const (
	stall      = Lease / 20
	stallCause = Lease // before an end
)

// stalled says whether the machine has stood still just now.
func (s *trial) stalled() bool {
	now := history.Now()
	return s.stalls.Longest(now.Add(-stallCause), now) >= stall
}
