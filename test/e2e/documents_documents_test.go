//go:build linux

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Each part has a cluster of its own, so that they play beside each other.
var _ = Describe("Documents edited manually", Label("faults-documents"), func() {
	part("members, values and counters", NightlyOn("mongodb"), sideRounds, memberRounds)
	part("locks", NightlyOn("mongodb"), lockRounds)
	part("sessions", NightlyOn("mongodb"), sessionRounds)
	part("all at once", NightlyOn("sqlite"), wholeRounds)
})

// part is rounds that follow one another on the same cluster.
func part(name string, nightly NightlyOn, rounds ...func(on *scene)) {
	EachStore(name, func(store string, uri func() string) {
		on := &scene{store: store}

		BeforeAll(func(ctx SpecContext) {
			on.start(ctx, uri())
			DeferCleanup(func() {
				overlaps, longest := Load(on.c).Overlaps(), time.Duration(0)
				for _, o := range overlaps {
					longest = max(longest, o.For)
				}
				Figure(store, "%s: two runs of a key at once, where that is allowed: %d, for at most %v", name,
					len(overlaps), longest)
			})
		}, NodeTimeout(ScenarioTimeout))

		for _, add := range rounds {
			add(on)
		}
	}, nightly, Ordered, ContinueOnFailure)
}

// round is a scenario about one thing done to the scene.
func (s *scene) round(text string, body func(ctx context.Context, s *scene), labels ...Labels) {
	It(text, func(ctx SpecContext) {
		s.begin()
		body(ctx, s)
	}, labels, SpecTimeout(ScenarioTimeout))
}
