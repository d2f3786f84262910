//go:build linux

package kube_test

import (
	"bufio"
	"os/exec"
	"regexp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

func installScenarios() {
	It("is installed: all run, 20 each, on all nodes", func(ctx SpecContext) {
		r := hundred
		began := history.Now()
		Expect(r.Install(ctx)).To(Succeed())
		Eventually(r.CheckRunning).WithContext(ctx).WithArguments(tasks).WithPolling(pollEvery).Should(Succeed())
		Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks).WithPolling(pollEvery).Should(Succeed())
		h := recorded(r)
		Expect(h.Keys()).To(HaveLen(tasks))
		counts := history.ByInstance(h.Owners())
		Expect(counts).To(HaveLen(replicas))
		for name, n := range counts {
			Expect(n).To(Equal(tasks/replicas), name)
		}
		Expect(spreadOverNodes(ctx, r)).To(Succeed())
		first := firstRuns(h, began)
		starts := h.Started(began, history.Now())
		Figure("install", "all %d tasks run %v after helm install was called, spread 20 each after %v (%d starts); "+
			"each key waited: %s", tasks,
			slices.Max(first).Round(time.Millisecond), lastStart(starts).Sub(began).Round(time.Millisecond),
			len(starts), history.Summary(first))
	}, SpecTimeout(ScenarioTimeout))

	It("passes helm test", func(ctx SpecContext) {
		r := settled(ctx)
		began := time.Now()
		out, err := r.Helm(ctx, "test", r.Name, "--logs", "--timeout", "2m")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(MatchRegexp(`Phase:\s+Succeeded`))
		Figure("install", "helm test passed in %v", time.Since(began).Round(time.Millisecond))
	}, SpecTimeout(ScenarioTimeout))

	It("shows the page through kubectl port-forward", func(ctx SpecContext) {
		r := settled(ctx)
		page := forward(ctx, r)
		Expect(page.Read(ctx, "/")).To(And(ContainSubstring("<html"), ContainSubstring("shardctl")))
		Expect(page.Read(ctx, "/api/v1/status")).To(ContainSubstring(`"running":100`))
		Expect(page.Read(ctx, "/metrics")).To(ContainSubstring("shardctl_owned_tasks"))
	}, SpecTimeout(ScenarioTimeout))

	It("is not rendered with too little capacity, nor with a mistyped value", func(ctx SpecContext) {
		r := *hundred
		out, err := r.Template(ctx, "--set", "replicaCount=4", "--set", "config.groups[0].cap=20")
		Expect(err).To(HaveOccurred())
		Expect(out).To(
			And(ContainSubstring("4"), ContainSubstring("20"), ContainSubstring("80"), ContainSubstring("100")),
			"the sum",
		)
		_, err = r.Template(ctx, "--set", "replicaCount=4")
		Expect(err).NotTo(HaveOccurred(), "4 × 30 is enough")
		out, err = r.Template(ctx, "--set", "replicaCounts=4")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("replicaCounts"))
	}, SpecTimeout(ScenarioTimeout))
}

// spreadOverNodes says whether no node has two pods more than another.
func spreadOverNodes(ctx SpecContext, r *kube.Release) error {
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, n := range nodes {
		if n.Ready() {
			counts[n.Metadata.Name] = 0
		}
	}
	for _, p := range readyPods(ctx, r) {
		counts[p.Spec.NodeName]++
	}
	return kube.CheckEven(counts)
}

// firstRuns are the times from began to the first start of each key after it.
func firstRuns(h *history.History, began history.Instant) []time.Duration {
	var waits []time.Duration
	for _, start := range kube.FirstStarts(h, h.Keys(), began) {
		waits = append(waits, start.Sub(began))
	}
	return waits
}

// lastStart is that of the run that started last.
func lastStart(runs []history.Run) history.Instant {
	var last history.Instant
	for _, run := range runs {
		last = max(last, run.Start)
	}
	return last
}

// forward runs kubectl port-forward to the Service until the scenario ends, and returns who reads its end here.
func forward(ctx SpecContext, r *kube.Release) *harness.Client {
	GinkgoHelper()
	cmd := exec.CommandContext(
		ctx, r.Environment.Kubectl, "--namespace", r.Namespace, "port-forward", "service/"+r.Name, ":8080",
	)
	out, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	Expect(found).NotTo(BeEmpty(), line)
	return harness.ClientAt(found, "")
}
