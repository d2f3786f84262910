//go:build linux

package kube_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
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
