//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// sharers is how many share the tasks of a cluster before each fault.
const sharers = 3

// balanced brings a cluster to so many replicas that share all of its tasks evenly, by what each of them says and by
// the records.
func balanced(ctx context.Context, c *harness.Cluster) {
	GinkgoHelper()
	Expect(c.Scale(ctx, sharers)).To(Succeed())
	Eventually(c.CheckSpread).WithContext(ctx).WithArguments(c.Tasks + len(c.Odd)).Should(Succeed())
}

// oldRuns are the runs of an instance that began before t.
func oldRuns(h *history.History, instance string, t history.Instant) []history.Run {
	var old []history.Run
	for _, key := range h.Keys() {
		for _, run := range h.Runs(key) {
			if run.Instance == instance && run.Start < t {
				old = append(old, run)
			}
		}
	}
	return old
}

// eventuallyChildren waits until every task that runs on a replica now has so many children that record.
func eventuallyChildren(c *harness.Cluster, r *harness.Replica, children int) {
	GinkgoHelper()
	Eventually(func() []history.Run {
		var lacking []history.Run
		for _, run := range Load(c).Owners() {
			if run.Instance == r.Name && len(run.Children) < children {
				lacking = append(lacking, run)
			}
		}
		return lacking
	}).Should(BeEmpty(), "tasks whose children do not record yet")
}

// atOnce is a limit for what a guard or worker does when it sees the other's end. It is sooner than the deadline of any
// lease, which would end the tasks as well. That is 0.8 T after a heartbeat that is no older than 0.1 T.
const atOnce = Lease * 13 / 20

// hiccups says, for a figure, how often living replicas saw the store fail for T/4. Then all ages start again, and an
// expiry takes longer for a reason that is not the fault's. A busy machine is enough.
func hiccups(c *harness.Cluster) string {
	n := 0
	for _, r := range c.Live() {
		n += strings.Count(r.Log(), "all ages start again")
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (replicas could not reach the store for T/4 meanwhile, %d times in all)", n)
}

// ms is a duration as figures show it.
func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
