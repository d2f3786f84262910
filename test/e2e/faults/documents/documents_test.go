//go:build linux

package documents_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Documents edited manually", func() {
	EachStore("One cluster", func(store string, uri func() string) {
		s := &scene{}

		BeforeAll(func(ctx SpecContext) {
			*s = *newScene(ctx, store, uri())
		}, NodeTimeout(ScenarioTimeout))
		BeforeEach(func() { s.begin() })
		AfterEach(func() { LogsOnFailure(s.c) })
		AfterAll(func() {
			Figure(
				store, "two runs of a key at once, where that is allowed: %d, for at most %v", len(s.excused),
				s.longest,
			)
		})

		sideRounds(s)
		memberRounds(s)
		lockRounds(s)
		sessionRounds(s)
		wholeRounds(s)
	}, Ordered, ContinueOnFailure)
})

// round is a scenario about one thing done to the scene.
func round(text string, body func(ctx context.Context)) {
	It(text, func(ctx SpecContext) { body(ctx) }, SpecTimeout(ScenarioTimeout))
}
