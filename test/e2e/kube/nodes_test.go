//go:build linux

package kube_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

func nodeScenarios() {
	It("goes on when a node loses its power", func(ctx SpecContext) {
		r := settled(ctx)
		v := mostLoaded(ctx, r)
		keys := keysOf(r, v.Pods...)
		at, err := r.Off(ctx, v.Node)
		DeferCleanup(func(ctx SpecContext) { powerOn(ctx, r, v.Node) }, NodeTimeout(ScenarioTimeout))
		Expect(err).NotTo(HaveOccurred())
		free := expectCapacityTaken(r, v, keys, at)
		Eventually(r.CheckRunning).WithContext(ctx).WithArguments(tasks).WithTimeout(2 * Patience).
			WithPolling(pollEvery).Should(Succeed())
		starts := kube.FirstStarts(recorded(r), keys, at)
		Figure("node powered off", "%d pods with %d tasks lost: %s run again within %v (as many as the others' caps "+
			"allow), all within %v, once Kubernetes had replaced the pods",
			len(v.Pods), len(keys), free.count(keys), free.took.Round(time.Millisecond),
			slices.Max(starts).Sub(at).Round(time.Millisecond))
	}, SpecTimeout(2*ScenarioTimeout))

	It("goes on when a node is cut off for 3 T, and when it comes back", func(ctx SpecContext) {
		r := settled(ctx)
		v := mostLoaded(ctx, r)
		keys := keysOf(r, v.Pods...)
		at, err := r.Cut(ctx, v.Node)
		DeferCleanup(func(ctx SpecContext) {
			_, err := r.Heal(ctx, v.Node)
			Expect(err).NotTo(HaveOccurred())
			awaitNode(ctx, r, v.Node)
		}, NodeTimeout(ScenarioTimeout))
		Expect(err).NotTo(HaveOccurred())
		free := expectCapacityTaken(r, v, keys, at)
		WaitUntil(ctx, at.Add(3*kube.Lease))
		for _, p := range v.Pods {
			Expect(recorded(r).AliveAfter(p.Metadata.Name, at.Add(kube.HardDeadline))).To(
				BeEmpty(), "nothing of %s outlives the hard deadline", p.Metadata.Name,
			)
		}
		healed, err := r.Heal(ctx, v.Node)
		Expect(err).NotTo(HaveOccurred())
		awaitNode(ctx, r, v.Node)
		settled(ctx)
		h := recorded(r)
		Figure("node cut off", "%d pods with %d tasks: the last ended %v after the cut, %s run elsewhere within %v; "+
			"all %d spread again %v after the cable was back",
			len(v.Pods), len(keys), lastEnd(h, keys, at).Sub(at).Round(time.Millisecond), free.count(keys),
			free.took.Round(time.Millisecond), tasks,
			lastStart(h.Started(healed, history.Now())).Sub(healed).Round(time.Millisecond))
	}, SpecTimeout(2*ScenarioTimeout))

	It("hands all tasks of a node over when it is drained, one pod at a time", func(ctx SpecContext) {
		r := settled(ctx)
		v := mostLoaded(ctx, r)
		keys, at := keysOf(r, v.Pods...), history.Now()
		DeferCleanup(func(ctx SpecContext) {
			_, err := r.Run(ctx, "uncordon", v.Node)
			Expect(err).NotTo(HaveOccurred())
		}, NodeTimeout(ScenarioTimeout))
		_, err := r.Run(ctx, "drain", v.Node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
		Expect(err).NotTo(HaveOccurred())
		drained := history.Now().Sub(at)
		took := expectTaken(r, "node drained", keys, at)
		settled(ctx)
		Figure(
			"node drained", "%d pods with %d tasks left in %v, all run again %v after the drain began", len(v.Pods),
			len(keys), drained.Round(time.Millisecond), took.Round(time.Millisecond),
		)
	}, SpecTimeout(2*ScenarioTimeout))
}

func mostLoaded(ctx SpecContext, r *kube.Release) kube.Victim {
	GinkgoHelper()
	victims, err := r.Victims(ctx)
	Expect(err).NotTo(HaveOccurred())
	return victims[0]
}

// taken is what became of the keys of lost pods while only the others' caps had capacity for them.
type taken struct {
	capacity int
	took     time.Duration
}

func (r taken) count(keys []string) string { return fmt.Sprintf("%d of %d", r.capacity, len(keys)) }

// expectCapacityTaken waits until as many of the keys run again as the pods that are left may own.
func expectCapacityTaken(r *kube.Release, v kube.Victim, keys []string, at history.Instant) taken {
	GinkgoHelper()
	left := replicas - len(v.Pods)
	capacity := min(len(keys), left*limit-(tasks-len(keys)))
	Eventually(r.CheckTaken).WithArguments(keys, at, capacity).WithPolling(pollEvery).Should(Succeed())
	return taken{capacity: capacity, took: kube.FirstStarts(recorded(r), keys, at)[capacity-1].Sub(at)}
}

// lastEnd is the last sign of life of those runs of these keys that had begun before at.
func lastEnd(h *history.History, keys []string, at history.Instant) history.Instant {
	var last history.Instant
	for _, key := range keys {
		for _, run := range h.Runs(key) {
			if run.Start < at {
				last = max(last, run.End)
			}
		}
	}
	return last
}

func powerOn(ctx SpecContext, r *kube.Release, node string) {
	GinkgoHelper()
	Expect(r.On(ctx, node)).To(Succeed())
	awaitNode(ctx, r, node)
}

// awaitNode waits until a node's kubelet answers again and what was deleted on it meanwhile is gone.
func awaitNode(ctx SpecContext, r *kube.Release, node string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		nodes, err := r.Nodes(ctx)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(nodes, func(n kube.Node) bool { return n.Metadata.Name == node }); i < 0 ||
			!nodes[i].Ready() {
			return fmt.Errorf("node %s is not ready", node)
		}
		pods, err := r.Kube.Pods(ctx, r.Namespace, "app.kubernetes.io/instance="+r.Name)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Metadata.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is still going", p.Metadata.Name)
			}
		}
		return nil
	}).WithContext(ctx).WithTimeout(2 * Patience).WithPolling(pollEvery).Should(Succeed())
}
