//go:build linux

package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Traces", Label("sqlite"), func() {
	It("show a hand-over as one, and reach what tasks run and call", func(ctx SpecContext) {
		c, far := newCollector(), newEndpoint()
		o := newOwn("traces", fmt.Sprintf(`
groups:
  - name: g
    tasks:
      - name: keep
        exec: {command: [sh, -c, 'echo "$SHARDCTL_INSTANCE $TRACEPARENT" >> $(DIR)/log; exec sleep 1000']}
      - {name: fails, every: 500ms, exec: {command: [sh, -c, "exit 3"]}}
      - {name: calls, every: 500ms, http: {url: "%s/"}}
`, far.URL))
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/keep", "running")
		first := c.eventually("claim", "a", "g/keep")
		Expect(first.Parent()).To(BeEmpty(), "nothing was before it")
		Expect(first.Values).To(And(
			HaveKeyWithValue("shardctl.group", "g"), HaveKeyWithValue("shardctl.task", "keep"),
			HaveKeyWithValue("shardctl.reason", "Created"), HaveKey("shardctl.session"),
			HaveKey("shardctl.fencing_token"),
		))
		Expect(c.eventually("start", "a", "g/keep").Parent()).To(Equal(first.ID()))

		failed := c.eventually("run", "a", "g/fails")
		Expect(failed.GetStatus().GetCode()).To(Equal(tracepb.Status_STATUS_CODE_ERROR))
		Expect(failed.GetStatus().GetMessage()).To(Equal("exit status 3"))
		Expect(failed.Values).To(HaveKeyWithValue("shardctl.result", "failed"))
		called := c.eventually("run", "a", "g/calls")
		Expect(called.GetStatus().GetCode()).To(Equal(tracepb.Status_STATUS_CODE_UNSET))
		var parents []string
		for _, request := range far.of("g/calls") {
			parents = append(parents, request.Header.Get("Traceparent"))
		}
		Expect(parents).To(ContainElement(called.traceparent()))

		b := o.start(ctx, "b")
		EventuallyReady(ctx, b)
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero(), a.LogTail(20))
		eventuallyTask(ctx, b, "g/keep", And(HaveField("State", "running"), HaveField("Instance", "b")))

		By("looking at what the old owner exported at its end, and the new one since")
		run, out := c.eventually("run", "a", "g/keep"), c.eventually("hand-over", "a", "g/keep")
		in, start := c.eventually("claim", "b", "g/keep"), c.eventually("start", "b", "g/keep")
		Expect(run.Values).To(HaveKeyWithValue("shardctl.result", "stopped"))
		Expect(run.Linked()).To(Equal([]string{first.ID()}))
		Expect(out.Linked()).To(Equal([]string{run.ID()}))
		Expect([]string{in.Trace(), start.Trace()}).To(HaveEach(out.Trace()))
		Expect(in.Parent()).To(Equal(out.ID()))
		Expect(start.Parent()).To(Equal(in.ID()))
		Expect(in.Values).To(And(
			HaveKeyWithValue("shardctl.from", "a"), HaveKeyWithValue("shardctl.reason", "Shutdown"),
			HaveKeyWithValue("shardctl.previous_fencing_token", out.Values["shardctl.fencing_token"]),
		))
		Expect(out.GetStartTimeUnixNano()).To(BeNumerically("<", in.GetEndTimeUnixNano()))
		Eventually(func() []string { return o.lines("log") }).Should(HaveLen(2))
		Expect(o.lines("log")[0]).To(Equal("a " + run.traceparent()))
		Expect(o.lines("log")[1]).To(And(HavePrefix("b 00-"), HaveSuffix("-01")))
		Figure("sqlite", "spans of a hand-over: hand-over %v, claim %v, start %v", out.took(), in.took(), start.took())
		Expect(a.Log()).To(ContainSubstring(`"trace_id":"` + run.Trace() + `"`))
	}, SpecTimeout(ScenarioTimeout))

	It("hold nothing up when the collector does not answer", func(ctx SpecContext) {
		exportTo(silence(ctx))
		o := newOwn("notraces", `
groups:
  - name: g
    tasks:
      - {name: keep, exec: {command: [sleep, "1000"]}}
      - {name: tick, every: 100ms, exec: {command: [sh, -c, "echo tick >> $(DIR)/log"]}}
`)
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/keep", "running")
		Eventually(func() int { return len(o.lines("log")) }).Should(BeNumerically(">=", 10))
		b := o.start(ctx, "b")
		EventuallyReady(ctx, b)
		began := history.Now()
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero(), a.LogTail(20))
		ExpectWithin(o.Cluster, 10*time.Second, began, history.Now(), "the shutdown")
		eventuallyTask(ctx, b, "g/keep", And(HaveField("State", "running"), HaveField("Instance", "b")))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("are not made, nor passed on, unless the environment asks for them", func(ctx SpecContext) {
		c := newCollector()
		GinkgoT().Setenv("OTEL_SDK_DISABLED", "true")
		o := newOwn("off", `
groups:
  - name: g
    tasks: [{name: keep, exec: {command: [sh, -c, 'echo "<$TRACEPARENT>" >> $(DIR)/log; exec sleep 1000']}}]
`)
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/keep", "running")
		Eventually(func() []string { return o.lines("log") }).Should(Equal([]string{"<>"}))
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero())
		Expect(c.spans).To(BeEmpty())
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

var _ = Describe("The log", Label("sqlite"), func() {
	It("says what has changed, and nothing while nothing does", func(ctx SpecContext) {
		o := newOwn("quiet", `
groups:
  - name: g
    tasks:
      - {name: "keep-{1..6}", exec: {command: [sleep, "1000"]}}
      - {name: "tick-{1..3}", every: 500ms, exec: {command: ["true"]}}
`)
		for _, name := range []string{"a", "b", "c"} {
			o.start(ctx, name)
		}
		a := o.Live()[0]
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			Equal(map[string]int{"a": 3, "b": 3, "c": 3}),
		)

		By("waiting for some heartbeats of all replicas in which none writes a line")
		Eventually(func(g Gomega) {
			before := logSizes(o.Live())
			for _, r := range o.Live() {
				seen := heartbeats(ctx, g, r)
				g.Eventually(func() float64 { return heartbeats(ctx, g, r) }).Should(BeNumerically(">=", seen+10))
			}
			g.Expect(logSizes(o.Live())).To(Equal(before), o.Logs(5))
		}).Should(Succeed())

		By("ending one")
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero())
		for _, message := range []string{
			"Claimed", "Task started", "Handing all tasks over", "Task ended", "Released", "All tasks are handed over",
		} {
			Expect(strings.Count(a.Log(), `"msg":"`+message+`"`)).To(BeNumerically(">", 0), message)
		}
	}, SpecTimeout(ScenarioTimeout))
})

func logSizes(of []*harness.Replica) map[string]int {
	sizes := map[string]int{}
	for _, r := range of {
		sizes[r.Name] = len(r.Log())
	}
	return sizes
}

func heartbeats(ctx SpecContext, g Gomega, r *harness.Replica) float64 {
	n, ok, err := r.Client.Metric(ctx, "shardctl_heartbeat_duration_seconds_count", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	return n
}
