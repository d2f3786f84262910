//go:build linux

package e2e_test

import (
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Jobs, which are done once", Label("sqlite"), func() {
	It("stay done on every replica, and run again when they were cut off", func(ctx SpecContext) {
		o := newOwn("jobs", `
groups:
  - name: g
    tasks:
      - {name: quick, restart: never, exec: {command: [sh, -c, 'echo x >> $(DIR)/quick']}}
      - name: long
        restart: never
        exec:
          command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN" >> $(DIR)/long; while ! test -e $(DIR)/go; do sleep 0.05; done; echo x >> $(DIR)/ended']
`)
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/quick", "done")
		eventuallyState(ctx, a, "g/long", "running")
		Eventually(func() []string { return o.lines("long") }).Should(HaveLen(1))

		By("killing its replica")
		Expect(a.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		b := o.start(ctx, "b")
		Eventually(func() []string { return o.lines("long") }).Should(HaveLen(2))
		eventuallyTask(
			ctx, b, "g/long",
			And(HaveField("State", "running"), HaveField("Instance", "b"), HaveField("Reason", "Orphaned")),
		)

		By("draining its replica")
		c := o.start(ctx, "c")
		EventuallyReady(ctx, c)
		Expect(b.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, b)).To(BeZero())
		Eventually(func() []string { return o.lines("long") }).Should(HaveLen(3))
		eventuallyTask(ctx, c, "g/long", And(HaveField("State", "running"), HaveField("Instance", "c")))

		By("letting it end")
		Expect(os.WriteFile(filepath.Join(o.dir, "go"), nil, 0o600)).To(Succeed())
		done := eventuallyState(ctx, c, "g/long", "done")
		Expect(done.Instance).To(BeEmpty())
		Expect(o.Scale(ctx, 0)).To(Succeed())

		By("starting all again")
		d := o.startWith(ctx, "d", []string{"--until-done"})
		Expect(ExitCode(ctx, d)).To(BeZero(), d.LogTail(20))
		expectRising(o.lines("long"), 3)
		Expect(o.lines("ended")).To(HaveLen(1))
		Expect(o.lines("quick")).To(HaveLen(1))
	}, SpecTimeout(ScenarioTimeout))

	It("end the program with code 1 when one has failed", func(ctx SpecContext) {
		o := newOwn("failed", `
groups:
  - name: g
    tasks:
      - {name: good, restart: never, exec: {command: ["true"]}}
      - {name: bad, restart: never, exec: {command: [sh, -c, 'exit 4']}}
      - {name: service, exec: {command: [sleep, "1000"]}}
`)
		for range 2 { // the outcome is in the store: the second does not run anything
			r := o.startWith(ctx, "r", []string{"--until-done"})
			Expect(ExitCode(ctx, r)).To(Equal(1), r.LogTail(20))
			expectOneError(r.Log(), "error: 1 of 2: a task has failed")
		}
		Expect(o.Leftovers()).To(BeEmpty())
	}, SpecTimeout(ScenarioTimeout))

	It("are waited for by all replicas, whichever of them runs them", func(ctx SpecContext) {
		o := newOwn("together", `
groups:
  - name: g
    cap: 2
    tasks: [{name: "j{1..8}", restart: never, exec: {command: [sh, -c, 'sleep 0.5; echo "$SHARDCTL_INSTANCE" >> $(DIR)/ran']}}]
`)
		a, b := o.startWith(ctx, "a", []string{"--until-done"}), o.startWith(ctx, "b", []string{"--until-done"})
		Expect(ExitCode(ctx, a)).To(BeZero(), a.LogTail(20))
		Expect(ExitCode(ctx, b)).To(BeZero(), b.LogTail(20))
		Expect(o.lines("ran")).To(And(HaveLen(8), ContainElements("a", "b")))
	}, SpecTimeout(ScenarioTimeout))

	It("make no sense to wait for where there are none", func(ctx SpecContext) {
		o := newOwn("nojobs", `
groups: [{name: g, tasks: [{name: t, exec: {command: [sleep, "1000"]}}]}]
`)
		r := o.startWith(ctx, "r", []string{"--until-done"})
		Expect(ExitCode(ctx, r)).To(Equal(78), r.Log())
		expectOneError(r.Log(), "error: --until-done: no task has restart: never")
	}, SpecTimeout(ScenarioTimeout))
})
