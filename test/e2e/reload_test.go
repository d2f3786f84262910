//go:build linux

package e2e_test

import (
	"os"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("A configuration that changes", Label("sqlite"), func() {
	const first = `
groups:
  - name: g
    tasks:
      - {name: kept, exec: {command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN" >> $(DIR)/kept; sleep 1000']}}
      - {name: changed, exec: {command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN one" >> $(DIR)/changed; sleep 1000']}}
      - {name: removed, exec: {command: [sh, -c, 'trap "echo stopped >> $(DIR)/removed; exit" TERM; echo "started $SHARDCTL_FENCING_TOKEN" >> $(DIR)/removed; while :; do sleep 0.05; done']}}
`
	second := strings.NewReplacer(
		"TOKEN one", "TOKEN two", "name: removed", "name: added", "$(DIR)/removed", "$(DIR)/added",
	).Replace(first)

	It("is taken up while its tasks run: what is added starts, what is removed stops, what has changed starts "+
		"again", func(ctx SpecContext) {
		o := newOwn("reload", first)
		a := o.start(ctx, "a")
		for _, name := range []string{"kept", "changed", "removed"} {
			eventuallyState(ctx, a, "g/"+name, "running")
			Eventually(func() []string { return o.lines(name) }).Should(HaveLen(1))
		}

		By("changing the file")
		o.body = second
		o.rewrite(a)
		Eventually(func() []string { return o.lines("added") }).Should(ConsistOf(HavePrefix("started ")))
		Eventually(func() []string { return o.lines("removed") }).Should(
			HaveExactElements(HavePrefix("started "), Equal("stopped")),
		)
		Eventually(func() []string { return o.lines("changed") }).Should(
			HaveExactElements(HaveSuffix(" one"), HaveSuffix(" two")),
		)
		eventuallyState(ctx, a, "g/added", "running")
		Expect(task(ctx, a, "g/removed")).Error().To(HaveOccurred(), "it is not declared any more")
		changed := o.lines("changed")
		expectRising([]string{strings.Fields(changed[0])[0], strings.Fields(changed[1])[0]}, 2)
		Expect(o.lines("kept")).To(HaveLen(1), "what has not changed runs on")

		By("bringing back what was removed: its token still rises")
		o.body = first
		o.rewrite(a)
		Eventually(func() []string { return o.lines("removed") }).Should(HaveLen(3))
		eventuallyState(ctx, a, "g/removed", "running")
		removed := o.lines("removed")
		expectRising(
			[]string{strings.TrimPrefix(removed[0], "started "), strings.TrimPrefix(removed[2], "started ")}, 2,
		)
		Expect(o.lines("kept")).To(HaveLen(1))
	}, SpecTimeout(ScenarioTimeout))

	It("is refused when it is bad, and the last good one stays", func(ctx SpecContext) {
		o := newOwn("refused", first)
		a := o.start(ctx, "a")
		kept := eventuallyState(ctx, a, "g/kept", "running")
		reload := func(want float64) {
			GinkgoHelper()
			Eventually(func() (float64, error) {
				value, _, err := a.Client.Metric(ctx, "shardctl_config_last_reload_successful", nil)
				return value, err
			}).Should(Equal(want))
		}
		reload(1)

		By("breaking it")
		o.body = strings.Replace(first, "- name: g", "- name: g\n    colour: red", 1)
		o.rewrite(a)
		problem := eventuallyProblem(ctx, a, "ConfigInvalid")
		Expect(problem.Instance).To(Equal("a"))
		Expect(problem.Message).To(And(ContainSubstring(a.Config), ContainSubstring("colour: is not a field")))
		reload(0)
		Expect(a.Log()).To(ContainSubstring("colour"))
		Expect(task(ctx, a, "g/kept")).To(
			And(HaveField("State", "running"), HaveField("FencingToken", kept.FencingToken)),
		)

		By("removing it")
		Expect(os.Remove(a.Config)).To(Succeed())
		Eventually(func() ([]harness.Problem, error) {
			status, err := a.Client.Status(ctx)
			return status.ProblemsOf("ConfigInvalid"), err
		}).Should(ContainElement(HaveField("Message", ContainSubstring("no such file"))))

		By("repairing it")
		o.body = second
		o.rewrite(a)
		eventuallyNoProblem(ctx, a, "ConfigInvalid")
		reload(1)
		eventuallyState(ctx, a, "g/added", "running")
		Expect(task(ctx, a, "g/kept")).To(
			And(HaveField("State", "running"), HaveField("FencingToken", kept.FencingToken)),
		)
	}, SpecTimeout(ScenarioTimeout))

	It("is read again at SIGHUP, and reports what needs a restart", func(ctx SpecContext) {
		o := newOwn("hup", first)
		a := o.start(ctx, "a")
		kept := eventuallyState(ctx, a, "g/kept", "running")
		read := func() int { return strings.Count(a.Log(), "The configuration was read again") }
		before := read()
		Expect(a.Kill(harness.Guard, syscall.SIGHUP)).Error().NotTo(HaveOccurred())
		Eventually(read).Should(Equal(before + 1))

		By("changing what only a restart takes up")
		o.rewrite(a, map[string]any{"lease": map[string]any{"duration": "3s"}, "zone": "z9"})
		problem := eventuallyProblem(ctx, a, "RestartRequired")
		Expect(problem.Message).To(
			And(ContainSubstring("lease.duration"), ContainSubstring("zone"), Not(ContainSubstring("cluster"))),
		)
		Expect(task(ctx, a, "g/kept")).To(
			And(HaveField("State", "running"), HaveField("FencingToken", kept.FencingToken)),
		)

		By("changing it back")
		o.rewrite(a)
		eventuallyNoProblem(ctx, a, "RestartRequired")
		Expect(o.lines("kept")).To(HaveLen(1))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})
