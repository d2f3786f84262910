//go:build linux

package kube_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

func scaleScenarios() {
	It("is scaled from 5 to 10 and then to 4", func(ctx SpecContext) {
		r := settled(ctx)
		DeferCleanup(func(ctx SpecContext) { scale(ctx, r, replicas) }, NodeTimeout(ScenarioTimeout))
		began := history.Now()
		scale(ctx, r, 10)
		starts := recorded(r).Started(began, history.Now())
		Expect(starts).To(HaveLen(tasks/2), "ten each: half of them move, and each once")
		Figure(
			"scaled 5 to 10", "%d moves, the last %v after kubectl scale; gaps %s", len(starts),
			lastStart(starts).Sub(began).Round(time.Millisecond), gapsSince(r, began),
		)

		began = history.Now()
		scale(ctx, r, 4)
		h := recorded(r)
		starts = h.Started(began, history.Now())
		counts := history.ByInstance(h.Owners())
		for name, n := range counts {
			Expect(n).To(Equal(tasks/4), name)
		}
		Figure(
			"scaled 10 to 4", "%d moves, the last %v after kubectl scale; gaps %s", len(starts),
			lastStart(starts).Sub(began).Round(time.Millisecond), gapsSince(r, began),
		)
	}, SpecTimeout(2*ScenarioTimeout))

	It("keeps its replicas when an autoscaler is turned on, and at every upgrade after that", func(ctx SpecContext) {
		r := settled(ctx)
		DeferCleanup(func(ctx SpecContext) {
			r.Extra, r.Replicas = nil, replicas
			Expect(r.Upgrade(ctx)).To(Succeed())
			scale(ctx, r, replicas)
		}, NodeTimeout(ScenarioTimeout))
		began := history.Now()
		autoscale := func(least int) {
			GinkgoHelper()
			r.Extra = map[string]any{
				"autoscaling": map[string]any{"enabled": true, "minReplicas": least, "maxReplicas": 8},
				"resources":   map[string]any{},
			}
			Expect(r.Upgrade(ctx)).To(Succeed())
		}
		fewest := watchReplicas(ctx, r)

		By("turning it on")
		autoscale(replicas)
		expectNothingMoved(ctx, r, began)

		By("upgrading after it has scaled: kubectl stands in for it")
		scale(ctx, r, 6)
		awaitCalm(ctx, r)
		began = history.Now()
		autoscale(replicas)
		expectNothingMoved(ctx, r, began)

		By("asking for more at least")
		autoscale(7)
		r.Replicas = 7
		Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks).WithTimeout(2 * Patience).
			WithPolling(pollEvery).Should(Succeed())
		var list kube.List[kube.Autoscaler]
		Expect(
			r.Get(ctx, "/apis/autoscaling/v2/namespaces/"+r.Namespace+"/horizontalpodautoscalers", &list),
		).To(Succeed())
		Expect(list.Items).To(HaveExactElements(HaveField("Spec.MinReplicas", 7)))
		Expect(fewest()).To(Equal(replicas), "the Deployment never asked for fewer")

		By("asking for so few that they lack capacity")
		r.Extra = map[string]any{"autoscaling": map[string]any{"enabled": true, "minReplicas": 3, "maxReplicas": 8}}
		err := r.Upgrade(ctx)
		Expect(err).To(MatchError(And(ContainSubstring("90"), ContainSubstring("100"))), "3 × 30 < 100")
		Figure(
			"autoscaler", "turned on and upgraded twice: never fewer than %d replicas; minReplicas 3 is refused",
			fewest(),
		)
	}, SpecTimeout(2*ScenarioTimeout))
}

// scale is what `kubectl scale` does, and waits until the tasks are spread over so many pods.
func scale(ctx SpecContext, r *kube.Release, n int) {
	GinkgoHelper()
	_, err := r.Kubectl(ctx, "scale", "deployment", r.Name, "--replicas="+strconv.Itoa(n))
	Expect(err).NotTo(HaveOccurred())
	r.Replicas = n
	Eventually(r.CheckSpread).WithContext(ctx).WithArguments(tasks).WithTimeout(2 * Patience).WithPolling(pollEvery).
		Should(Succeed())
}

func gapsSince(r *kube.Release, began history.Instant) string {
	GinkgoHelper()
	return history.Summary(history.Lengths(recorded(r).Gaps(began, history.Now())))
}

// watchReplicas looks at the Deployment until the scenario ends; what it returns gives the fewest replicas that it ever
// asked for.
func watchReplicas(ctx SpecContext, r *kube.Release) func() int {
	GinkgoHelper()
	d, err := r.Deployment(ctx)
	Expect(err).NotTo(HaveOccurred())
	watching, stop := context.WithCancel(ctx)
	type look struct {
		fewest int
		err    error
	}
	looks := make(chan look, 1)
	looks <- look{fewest: d.Spec.Replicas}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for watching.Err() == nil {
			now, err := r.Deployment(watching)
			l := <-looks
			if err == nil {
				l.fewest = min(l.fewest, now.Spec.Replicas)
			} else if watching.Err() == nil {
				l.err = fmt.Errorf("look at the Deployment: %w", err)
			}
			looks <- l
			time.Sleep(50 * time.Millisecond)
		}
	}()
	DeferCleanup(func() { stop(); <-ended })
	return func() int {
		GinkgoHelper()
		l := <-looks
		looks <- l
		Expect(l.err).NotTo(HaveOccurred())
		return l.fewest
	}
}
