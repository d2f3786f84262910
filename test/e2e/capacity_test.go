//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("More tasks than the caps have free capacity for", func() {
	EachStore("Fifty on four replicas with a cap of 10", func(store string, uri func() string) {
		const tasks, running, left = 50, 40, 10

		It("run as far as capacity allows, and the rest is reported everywhere as NoCapacity", Label("P6"),
			func(ctx SpecContext) {
				c := NewCluster("capacity-"+store, harness.Options{StoreURI: uri(), Cap: 10, Tasks: tasks})
				Expect(c.Add(ctx, 4)).To(Succeed())
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(running).Should(Succeed())

				for _, r := range c.Live() {
					By("asking " + r.Name)
					status, err := r.Client.Status(ctx)
					Expect(err).NotTo(HaveOccurred())
					group := status.Group(harness.Group)
					Expect(group.Running).To(Equal(running))
					Expect(group.Unassigned).To(Equal(left))
					Expect(group.Capacity).To(HaveValue(Equal(running)))
					Expect(status.ProblemsOf("NoCapacity")).NotTo(BeEmpty())

					value, found, err := r.Client.Metric(
						ctx, "shardctl_cluster_tasks", map[string]string{"group": harness.Group, "state": "unassigned"},
					)
					Expect(err).NotTo(HaveOccurred())
					Expect(found).To(BeTrue(), "shardctl_cluster_tasks{state=unassigned}")
					Expect(value).To(Equal(float64(left)))
					value, found, err = r.Client.Metric(
						ctx, "shardctl_cluster_problems", map[string]string{"reason": "NoCapacity"},
					)
					Expect(err).NotTo(HaveOccurred())
					Expect(found).To(BeTrue(), "shardctl_cluster_problems{reason=NoCapacity}")
					Expect(value).To(BeNumerically(">", 0))
				}

				By("asking the command line")
				server := c.Live()[0].Client.AdminURL()
				status, err := harness.Command(ctx, Bins.Shardctl, "status", "--server", server)
				Expect(err).NotTo(HaveOccurred())
				Expect(status.Stdout).To(ContainSubstring("NoCapacity"), fmt.Sprint(status))
				got, err := harness.Command(ctx, Bins.Shardctl, "get", "tasks", "--server", server, "-o", "json")
				Expect(err).NotTo(HaveOccurred())
				Expect(got.Code).To(Equal(0), got.Stderr)
				Expect(unassigned([]byte(got.Stdout))).To(Equal(left))
				waited, err := harness.Command(
					ctx, Bins.Shardctl, "wait", "--for=running", "-g", harness.Group, "--timeout", "1s", "--server",
					server,
				)
				Expect(err).NotTo(HaveOccurred())
				Expect(waited.Code).To(Equal(1), "not all run: %v", waited)

				By("adding replicas")
				Expect(c.Scale(ctx, 5)).To(Succeed())
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				Eventually(func() ([]harness.Problem, error) {
					status, err := c.Live()[0].Client.Status(ctx)
					return status.ProblemsOf("NoCapacity"), err
				}).Should(BeEmpty())
			}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"))
})

// unassigned counts tasks that `get tasks -o json` shows as such.
func unassigned(text []byte) int {
	GinkgoHelper()
	var list struct {
		Items []harness.Task `json:"items"`
	}
	Expect(json.Unmarshal(text, &list)).To(Succeed(), string(text))
	n := 0
	for _, task := range list.Items {
		if task.State == "unassigned" {
			n++
		}
	}
	return n
}
