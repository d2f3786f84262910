//go:build linux

package kube_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// pollEvery is how often a scenario looks: each look reads a hundred files and asks the API server.
const pollEvery = 250 * time.Millisecond

// One release goes through all of these scenarios. Each begins with five replicas in balance and leaves nothing broken
// behind, so each can be run alone.
var _ = Describe("A release with a hundred tasks on five replicas with a cap of 30", Ordered, ContinueOnFailure,
	func() {
		BeforeAll(func(ctx SpecContext) {
			k := onStage(ctx)
			// for the records on the nodes' file system; the pods themselves ask for nothing
			newNamespace(ctx, k, namespace, "privileged")
			hundred = newHundred(k)
		}, NodeTimeout(2*ScenarioTimeout))

		AfterEach(func(ctx SpecContext) {
			reportOnFailure(ctx, hundred)
			spoilt = spoilt || CurrentSpecReport().Failed()
			if hundred != nil {
				expectOneRunEach(hundred)
			}
		}, NodeTimeout(ScenarioTimeout))

		installScenarios()
		rolloutScenarios()
		podScenarios()
		nodeScenarios()
		listScenarios()
		scaleScenarios()
		storeScenarios()
	})

var _ = Describe("A namespace with restricted Pod Security", func() {
	It("takes the chart as it is: no token, a root file system that is only read", func(ctx SpecContext) {
		const few = 10
		k := onStage(ctx)
		name := namespace + "-restricted"
		newNamespace(ctx, k, name, "restricted")
		r := &kube.Release{
			Kube: k, Name: "modest", Namespace: name, Tag: "one",
			StoreURI: testmongo.WithDatabase(stage.uri, "restricted"),
			Replicas: 3, Cap: 5, Tasks: few,
		}
		DeferCleanup(func(ctx SpecContext) { reportOnFailure(ctx, r) }, NodeTimeout(ScenarioTimeout))
		Expect(r.Install(ctx)).To(Succeed())
		Eventually(func(
			ctx context.Context,
		) error {
			return allSay(ctx, r, few)
		}).WithContext(ctx).WithPolling(pollEvery).Should(Succeed())
		for _, p := range readyPods(ctx, r) {
			Expect(p.Spec.Containers).To(HaveEach(HaveField("SecurityContext.ReadOnlyRootFilesystem", true)))
			for _, v := range p.Spec.Volumes {
				if v.Projected == nil {
					continue
				}
				for _, source := range v.Projected.Sources {
					Expect(source.ServiceAccountToken).To(BeNil(), "%s mounts a token", v.Name)
				}
			}
		}
		out, err := r.Helm(ctx, "test", r.Name, "--timeout", "2m")
		Expect(err).NotTo(HaveOccurred(), out)
	}, SpecTimeout(2*ScenarioTimeout))
})

// allSay says whether every replica that is wanted says that all tasks run.
func allSay(ctx context.Context, r *kube.Release, tasks int) error {
	pods, err := r.ReadyPods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != r.Replicas {
		return fmt.Errorf("%d pods are ready, want %d", len(pods), r.Replicas)
	}
	for _, p := range pods {
		status, err := statusOf(ctx, r, p)
		if err != nil {
			return err
		}
		if got := status.Group(kube.Group).Running; got != tasks {
			return fmt.Errorf("%s says %d of %d tasks run", p.Metadata.Name, got, tasks)
		}
	}
	return nil
}
