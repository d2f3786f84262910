//go:build linux

package e2e_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Two replicas with one instance name", Label(Nightly), func() {
	EachStore("Twins", func(store string, uri func() string) {
		const tasks = 10

		It("are reported, and both keep working", func(ctx SpecContext) {
			c := NewCluster("twins-"+store, harness.Options{StoreURI: uri(), Tasks: tasks})
			for range 2 {
				_, err := c.Start(ctx, "twin")
				Expect(err).NotTo(HaveOccurred())
			}
			Eventually(func() error { return checkSessions(c, tasks, 2) }).Should(Succeed())
			for _, r := range c.Live() {
				Eventually(func() ([]harness.Problem, error) {
					status, err := r.Client.Status(ctx)
					return status.ProblemsOf("DuplicateInstance"), err
				}).Should(ContainElement(HaveField("Instance", "twin")))
			}
			Expect(c.Live()).To(HaveLen(2))
		}, SpecTimeout(ScenarioTimeout))
	})
})

// checkSessions says whether all tasks run, spread evenly over this many sessions.
func checkSessions(c *harness.Cluster, tasks, sessions int) error {
	h, err := c.History()
	if err != nil {
		return err
	}
	owners := h.Owners()
	if len(owners) != tasks {
		return fmt.Errorf("%d of %d tasks run", len(owners), tasks)
	}
	counts := map[string]int{}
	for _, run := range owners {
		counts[run.Session]++
	}
	if len(counts) != sessions {
		return fmt.Errorf("%d sessions run tasks, want %d", len(counts), sessions)
	}
	for _, n := range counts {
		if n != tasks/sessions {
			return errors.New("uneven over the sessions: " + fmt.Sprint(counts))
		}
	}
	return nil
}
