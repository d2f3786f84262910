//go:build linux

package kube_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/e2e/kube"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// An application in Python, in an image of its own beside each replica. The records are its own.
var _ = Describe("A release with an application beside each replica", Label(Nightly), Ordered, ContinueOnFailure, func() {
	var r *kube.Release

	BeforeAll(func(ctx SpecContext) {
		k := onStage(ctx)
		name := namespace + "-application"
		newNamespace(ctx, k, name, "privileged") // for the records
		r = &kube.Release{
			Kube: k, Name: "beside", Namespace: name, Tag: "one",
			StoreURI: testmongo.WithDatabase(stage.uri, "application"),
			Replicas: 3, Cap: 20, Tasks: 30, Records: newRecords(k),
		}
		r.Extra = r.Beside(0)
		Expect(r.Install(ctx)).To(Succeed())
	}, NodeTimeout(2*ScenarioTimeout))

	AfterEach(func(ctx SpecContext) {
		reportOnFailure(ctx, r)
		if r != nil {
			expectOneRunEach(r)
		}
	}, NodeTimeout(ScenarioTimeout))

	// A new pod must not count before its application takes keys: the old pods' keys would go to old pods, and move again.
	It("is upgraded, and every key moves once, while applications start slowly", func(ctx SpecContext) {
		awaitCalm(ctx, r)
		began := history.Now()
		r.Extra = r.Beside(8*time.Second + time.Duration(CurrentSpecReport().NumAttempts)) // another template each time
		Expect(r.Upgrade(ctx, "--wait", "--timeout", rolloutTimeout)).To(Succeed())
		gaps := expectEachMovedOnce(ctx, r, "application upgraded", began)
		Expect(slices.Max(gaps)).To(BeNumerically("<", kube.Lease/2),
			"keys are handed over: were the application ended first, they would wait for what it was promised")
	}, SpecTimeout(2*ScenarioTimeout))

	It("keeps all keys where they are while a new application never gets ready", func(ctx SpecContext) {
		awaitCalm(ctx, r)
		before, began, good := identities(readyPods(ctx, r)), history.Now(), r.Extra
		r.Extra = r.Beside(time.Hour)
		err := r.Upgrade(ctx, "--wait", "--timeout", badTimeout)
		r.Extra = good
		Expect(err).To(HaveOccurred(), "Helm cannot have seen it ready")
		Expect(identities(readyPods(ctx, r))).To(Equal(before), "the old pods")
		Expect(recorded(r).Started(began, history.Now())).To(BeEmpty(), "nothing moved")
		_, err = r.Helm(ctx, "rollback", r.Name, "--wait", "--timeout", rolloutTimeout)
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(2*ScenarioTimeout))

	It("goes on when a pod is deleted by force", func(ctx SpecContext) {
		awaitCalm(ctx, r)
		p := calmest(ctx, r)
		keys, at := keysOf(r, p), history.Now()
		_, err := r.Kubectl(ctx, "delete", "pod", p.Metadata.Name, "--wait=false", "--force", "--grace-period=0")
		Expect(err).NotTo(HaveOccurred())
		expectTaken(r, "pod with an application, deleted by force", keys, at)
	}, SpecTimeout(2*ScenarioTimeout))

	DescribeTable("goes on when a process in a pod is killed: the", func(ctx SpecContext, part kube.Part) {
		awaitCalm(ctx, r)
		p := calmest(ctx, r)
		keys := keysOf(r, p)
		at, err := r.KillPart(ctx, p, part)
		Expect(err).NotTo(HaveOccurred())
		expectTaken(r, "pod with an application, "+string(part)+" killed", keys, at)
	},
		Entry(nil, kube.Application, SpecTimeout(2*ScenarioTimeout)),
		Entry(nil, kube.Worker, SpecTimeout(2*ScenarioTimeout)),
		Entry(nil, kube.Guard, SpecTimeout(2*ScenarioTimeout)),
	)
})
