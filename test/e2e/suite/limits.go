//go:build linux

package suite

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// What is promised of keys that move, in docs/protocol.md. P4 is T and AfterLease after a death.
const (
	AfterLease = time.Second
	WorkerDied = time.Second            // P11
	HandedOver = 500 * time.Millisecond // P4: after the moment at which the task has stopped
	onePeriod  = 20 * time.Millisecond  // how exactly records tell that moment
)

// stalls are those of this process.
var stalls history.Watch

// Stall is how long the machine stood still at a time that touches [from, to], as this process and the tasks of a
// cluster saw it. Tasks that the scenario itself has stopped then count too.
func Stall(c *harness.Cluster, from, to history.Instant) time.Duration {
	GinkgoHelper()
	tasks, err := c.Stall(from, to)
	Expect(err).NotTo(HaveOccurred())
	return max(tasks, stalls.Longest(from, to))
}

// ExpectWithin wants a time to be no longer than what is promised, beside what the machine itself stood still.
func ExpectWithin(c *harness.Cluster, promise time.Duration, from, to history.Instant, what string) {
	GinkgoHelper()
	if to.Sub(from) <= promise {
		return
	}
	stall := Stall(c, from, to)
	Expect(to.Sub(from)).To(
		BeNumerically("<=", promise+stall), "%s: %v is promised, and the machine stood still for %v", what, promise,
		stall,
	)
}

// ExpectHandedOver wants every key that an instance ran to have started elsewhere in time after it was stopped, since
// the instance was asked to leave.
func ExpectHandedOver(c *harness.Cluster, instance string, since history.Instant) {
	GinkgoHelper()
	for _, gap := range Load(c).Gaps(since, history.Now()) {
		if gap.Old.Instance == instance {
			ExpectWithin(c, HandedOver+onePeriod, gap.Old.End, gap.New.Start, gap.New.Key+" after it was stopped")
		}
	}
}
