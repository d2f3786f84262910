//go:build linux

package kube_test

import (
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

func storeScenarios() {
	It("stops and hands over what runs on a node from where the store cannot be reached", func(ctx SpecContext) {
		r := settled(ctx)
		victims, err := r.Victims(ctx)
		Expect(err).NotTo(HaveOccurred())
		v := victims[len(victims)-1] // the one with the fewest: the others have free capacity for all
		keys := keysOf(r, v.Pods...)
		before := identities(v.Pods)
		DeferCleanup(func(ctx SpecContext) {
			_, err := r.HealStore(ctx, r.StoreURI, v.Pods...)
			if !CurrentSpecReport().Failed() {
				Expect(err).To(HaveOccurred(), "the scenario took its rules back")
			}
		}, NodeTimeout(ScenarioTimeout))
		at, err := r.CutStore(ctx, r.StoreURI, v.Pods...)
		Expect(err).NotTo(HaveOccurred())
		cut := history.Now()

		free := expectCapacityTaken(r, v, keys, at)
		for _, p := range v.Pods {
			Expect(recorded(r).AliveAfter(p.Metadata.Name, cut.Add(kube.HardDeadline))).To(
				BeEmpty(), "nothing of %s outlives the hard deadline", p.Metadata.Name,
			)
			Eventually(func() ([]harness.Problem, error) {
				status, err := statusOf(ctx, r, p)
				return status.ProblemsOf("StoreUnreachable"), err
			}).WithPolling(pollEvery).ShouldNot(BeEmpty())
			Expect(r.Replica(p).Health(ctx, "/livez")).To(Equal(http.StatusOK), "an unreachable store restarts nothing")
		}
		h := recorded(r)
		last := lastEnd(h, keys, at)

		healed, err := r.HealStore(ctx, r.StoreURI, v.Pods...)
		Expect(err).NotTo(HaveOccurred())
		settled(ctx)
		after := identities(readyPods(ctx, r))
		for uid, restarts := range before {
			Expect(after).To(HaveKeyWithValue(uid, restarts), "no container was restarted")
		}
		h = recorded(r)
		Figure("store cut off", "%d pods with %d tasks: the last ended %v after the cut (X is %v), %s run elsewhere "+
			"within %v; all spread again %v after it was back; %s",
			len(v.Pods), len(keys), last.Sub(at).Round(time.Millisecond), kube.HardDeadline, free.count(keys),
			free.took.Round(time.Millisecond),
			lastStart(h.Started(healed, history.Now())).Sub(healed).Round(time.Millisecond), gapRange(h, keys, at))
	}, SpecTimeout(2*ScenarioTimeout))
}

// gapRange is the shortest and the longest time in which one of these keys did not run, since at.
func gapRange(h *history.History, keys []string, at history.Instant) string {
	var lengths []time.Duration
	for _, gap := range h.Gaps(at, history.Now()) {
		if slices.Contains(keys, gap.New.Key) {
			lengths = append(lengths, gap.Length)
		}
	}
	return "gaps " + history.Summary(lengths)
}
