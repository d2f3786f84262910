//go:build linux

package kube_test

import (
	"cmp"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

func podScenarios() {
	It("goes on when a pod is deleted", func(ctx SpecContext) {
		r := settled(ctx)
		p := calmest(ctx, r)
		keys, at := keysOf(r, p), history.Now()
		_, err := r.Kubectl(ctx, "delete", "pod", p.Metadata.Name, "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		expectTaken(r, "pod deleted", keys, at)
		settled(ctx)
	}, SpecTimeout(ScenarioTimeout))

	It("goes on when a pod is deleted by force", func(ctx SpecContext) {
		r := settled(ctx)
		p := calmest(ctx, r)
		keys, at := keysOf(r, p), history.Now()
		_, err := r.Kubectl(ctx, "delete", "pod", p.Metadata.Name, "--wait=false", "--force", "--grace-period=0")
		Expect(err).NotTo(HaveOccurred())
		expectTaken(r, "pod deleted by force", keys, at)
		settled(ctx)
	}, SpecTimeout(ScenarioTimeout))

	It("goes on at once when the worker in a pod is killed", func(ctx SpecContext) {
		r := settled(ctx)
		p := calmest(ctx, r)
		keys := keysOf(r, p)
		at, err := r.KillPart(ctx, p, kube.Worker)
		Expect(err).NotTo(HaveOccurred())
		took := expectTaken(r, "worker killed", keys, at)
		Expect(took).To(
			BeNumerically("<", kube.Lease/2),
			"the guard marks the session dead: nothing waits for T, which takes 0.9 T at least",
		)
		Eventually(func() (map[string]int, error) {
			pods, err := r.ReadyPods(ctx)
			return identities(pods), err
		}).WithPolling(pollEvery).Should(HaveKeyWithValue(p.Metadata.UID, p.Restarts()+1),
			"the container is started again in its pod")
		settled(ctx)
	}, SpecTimeout(ScenarioTimeout))

	It("goes on in the same pod when its whole container is killed", func(ctx SpecContext) {
		r := settled(ctx)
		p := calmest(ctx, r)
		keys := keysOf(r, p)
		at, err := r.KillPart(ctx, p, kube.Guard)
		Expect(err).NotTo(HaveOccurred())
		took := expectTaken(r, "container killed", keys, at)
		h := recorded(r)
		owners, same := h.Owners(), 0
		for _, key := range keys {
			if owners[key].Instance == p.Metadata.Name {
				same++
			}
		}
		Figure("container killed", "%d of its %d tasks run in the same pod again", same, len(keys))
		Expect(same).To(Equal(len(keys)), "a restarted container takes its own keys back")
		Expect(took).To(
			BeNumerically("<", kube.Lease*8/10), "at once, without waiting for T, which takes 0.9 T at least",
		)
		settled(ctx)
	}, SpecTimeout(ScenarioTimeout))
}

// calmest is a ready pod with the fewest restarts: Kubernetes lets others wait before it starts their container again.
func calmest(ctx SpecContext, r *kube.Release) kube.Pod {
	GinkgoHelper()
	pods := readyPods(ctx, r)
	Expect(pods).NotTo(BeEmpty())
	return slices.MinFunc(pods, func(a, b kube.Pod) int { return cmp.Compare(a.Restarts(), b.Restarts()) })
}

// expectTaken waits until all these keys have been started after at and run, says how long it took, and returns it.
func expectTaken(r *kube.Release, what string, keys []string, at history.Instant) time.Duration {
	GinkgoHelper()
	Eventually(r.CheckTaken).WithArguments(keys, at, len(keys)).WithPolling(pollEvery).Should(Succeed())
	h := recorded(r)
	took := slices.Max(kube.FirstStarts(h, keys, at)).Sub(at)
	Figure(
		what, "%d tasks run again within %v, gaps %s", len(keys), took.Round(time.Millisecond),
		history.Summary(history.Lengths(h.Gaps(at, history.Now()))),
	)
	return took
}
