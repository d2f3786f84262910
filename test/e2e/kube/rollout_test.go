//go:build linux

package kube_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// rolloutTimeout is how long Helm waits for a rollout that succeeds, and badTimeout for one that cannot.
const (
	rolloutTimeout = "150s"
	badTimeout     = "20s"
)

func rolloutScenarios() {
	It("is upgraded to a new image, and every key moves once", func(ctx SpecContext) {
		r := settled(ctx)
		began := history.Now()
		r.Tag = "two"
		Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
		expectEachMovedOnce(ctx, r, "upgrade", began)
	}, SpecTimeout(2*ScenarioTimeout))

	It("is rolled back, and every key moves once", func(ctx SpecContext) {
		r := settled(ctx)
		if r.Tag == "one" { // run alone
			r.Tag = "two"
			Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
			settled(ctx)
		}
		began := history.Now()
		_, err := r.Helm(ctx, "rollback", r.Name, "--wait", "--timeout", rolloutTimeout)
		Expect(err).NotTo(HaveOccurred())
		r.Tag = "one"
		expectEachMovedOnce(ctx, r, "rollback", began)
	}, SpecTimeout(2*ScenarioTimeout))

	// Pods may take longer to get ready than membership takes to settle. Balancing over old and new pods would then
	// move keys to where they cannot stay. That keys prefer the newer rollout keeps them from it.
	It("moves every key once, too, when pods get ready slowly", func(ctx SpecContext) {
		r := settled(ctx)
		spoilt = true // the next scenario wants other values
		r.Settle = "1s"
		Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
		Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks).WithPolling(pollEvery).Should(Succeed())
		began := history.Now()
		r.Tag, r.Extra = "two", map[string]any{"minReadySeconds": 4}
		Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
		expectEachMovedOnce(ctx, r, "slow upgrade", began)
	}, SpecTimeout(2*ScenarioTimeout))

	DescribeTable("keeps all tasks where they are while a bad image", func(ctx SpecContext, tag string) {
		r := settled(ctx)
		before := identities(readyPods(ctx, r))
		began := history.Now()
		good := r.Tag
		r.Tag = tag
		err := r.Upgrade(ctx, "--wait", "--timeout", badTimeout)
		r.Tag = good
		Expect(err).To(HaveOccurred(), "Helm cannot have seen it ready")
		Expect(identities(readyPods(ctx, r))).To(Equal(before), "the old pods")
		Expect(r.CheckSpread(ctx, tasks)).To(Succeed())

		_, err = r.Helm(ctx, "rollback", r.Name, "--wait", "--timeout", rolloutTimeout)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (map[string]int, error) {
			pods, err := r.Pods(ctx)
			return identities(pods), err
		}).WithPolling(pollEvery).Should(Equal(before), "the bad pod is gone, and no other has come")
		Expect(r.CheckSpread(ctx, tasks)).To(Succeed())
		Expect(recorded(r).Started(began, history.Now())).To(BeEmpty(), "nothing moved and nothing restarted")
		Figure(
			"bad image", "%s: no task moved in the %v from helm upgrade to the end of the rollback", tag,
			history.Now().Sub(began).Round(time.Second),
		)
	},
		Entry("exits at once", "exits", SpecTimeout(ScenarioTimeout)),
		Entry("never gets ready", "hangs", SpecTimeout(ScenarioTimeout)),
	)
}

// expectEachMovedOnce checks a rollout that began then and is complete. It returns for how long keys did not run.
func expectEachMovedOnce(ctx SpecContext, r *kube.Release, what string, began history.Instant) []time.Duration {
	GinkgoHelper()
	took := history.Now().Sub(began)
	Eventually(r.CheckSpread).WithContext(ctx).WithArguments(r.Tasks).WithPolling(pollEvery).Should(Succeed())
	for _, p := range readyPods(ctx, r) {
		Expect(p.Spec.Containers[0].Image).To(HaveSuffix(":" + r.Tag))
	}
	h := recorded(r)
	starts := h.Started(began, history.Now())
	times := map[string]int{}
	for _, run := range starts {
		times[run.Key]++
	}
	again := 0
	for _, n := range times {
		again += n - 1
	}
	gaps := history.Lengths(h.Gaps(began, history.Now()))
	Figure(what, "%d moves of %d keys (%d more than once each), complete after %v, the last move after %v; gaps "+
		"%s", len(starts), len(times), again,
		took.Round(time.Millisecond), lastStart(starts).Sub(began).Round(time.Millisecond), history.Summary(gaps))
	few := r.Tasks / 20
	Expect(len(starts)).To(BeNumerically("<=", r.Tasks+few))
	Expect(again).To(BeNumerically("<=", few), "every key moves at most once, but for a few")
	return gaps
}

// identities are the UIDs of pods, with their restarts.
func identities(pods []kube.Pod) map[string]int {
	ids := map[string]int{}
	for _, p := range pods {
		ids[p.Metadata.UID] = p.Restarts()
	}
	return ids
}
