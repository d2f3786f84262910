//go:build linux

package e2e_test

import (
	"fmt"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Where tasks may run", Label("sqlite", Nightly), func() {
	It("follows zones, weights, selectors and maxTasks", func(ctx SpecContext) {
		o := newOwn("placement", `
groups:
  - name: zoned
    tasks: [{name: "z{1..4}", exec: {command: [sleep, "1000"]}}]
  - name: weighed
    instances: {selector: {disk: ssd}}
    tasks:
      - {name: heavy, weight: 3, exec: {command: [sleep, "1000"]}}
      - {name: "light{1..3}", exec: {command: [sleep, "1000"]}}
  - name: gpu
    instances: {selector: {pool: gpu}}
    tasks: [{name: "g{1..2}", exec: {command: [sleep, "1000"]}}]
`)
		header := func(zone string, labels map[string]any) map[string]any {
			return map[string]any{"zone": zone, "labels": labels}
		}
		a := o.start(ctx, "a", header("z1", map[string]any{"disk": "ssd"}))
		o.start(ctx, "b", header("z1", map[string]any{"disk": "ssd"}))
		c := o.start(ctx, "c", header("z2", map[string]any{"pool": "gpu"}))
		counts := func(group string) func() (map[string]int, error) {
			return func() (map[string]int, error) {
				tasks, err := a.Client.Tasks(ctx)
				counts := map[string]int{}
				for _, t := range tasks {
					if t.State == "running" && keyGroup(t.Key) == group {
						counts[t.Instance]++
					}
				}
				return counts, err
			}
		}
		Eventually(counts("zoned")).Should(
			Equal(map[string]int{"a": 1, "b": 1, "c": 2}), "the fourth goes to the smaller zone",
		)
		Eventually(counts("gpu")).Should(Equal(map[string]int{"c": 2}))
		Eventually(counts("weighed")).Should(
			Or(Equal(map[string]int{"a": 1, "b": 3}), Equal(map[string]int{"a": 3, "b": 1})),
			"three against three of weight",
		)

		By("losing the only one that may")
		Expect(c.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		lost := eventuallyTask(
			ctx, a, "gpu/g1", And(HaveField("State", "unassigned"), HaveField("Reason", "NoInstance")),
		)
		Expect(lost.Message).To(ContainSubstring("no live instance may own"))
		Eventually(counts("zoned")).Should(Equal(map[string]int{"a": 2, "b": 2}))
	}, SpecTimeout(ScenarioTimeout))

	It("stays below maxTasks, over all groups", func(ctx SpecContext) {
		o := newOwn("maxtasks", fmt.Sprintf(`
groups:
  - name: one
    tasks: [{name: "t{1..4}", exec: {command: [%[1]q]}}]
  - name: two
    tasks: [{name: "t{1..4}", exec: {command: [%[1]q]}}]
`, Bins.Recorder))
		AtMost(o.Cluster, 3, "a", "b")
		small := map[string]any{"maxTasks": 3}
		a := o.start(ctx, "a", small)
		o.start(ctx, "b", small)
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			Equal(map[string]int{"a": 3, "b": 3}),
		)
		Expect(eventuallyProblem(ctx, a, "NoCapacity").Message).To(ContainSubstring("have no owner"))
		Consistently(
			func() (map[string]int, error) { return owned(ctx, a) }, "1s",
		).Should(Equal(map[string]int{"a": 3, "b": 3}))
		o.start(ctx, "c")
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(And(
			HaveKeyWithValue("a", BeNumerically("<=", 3)), HaveKeyWithValue("b", BeNumerically("<=", 3)),
			HaveKeyWithValue("c", BeNumerically(">=", 2))))
		for _, group := range []string{"one", "two"} {
			for _, name := range []string{"t1", "t2", "t3", "t4"} {
				eventuallyState(ctx, a, group+"/"+name, "running")
			}
		}
		eventuallyNoProblem(ctx, a, "NoCapacity")
	}, SpecTimeout(ScenarioTimeout))
})

// keyGroup is the group of a key.
func keyGroup(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return ""
}
