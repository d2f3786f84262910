//go:build linux

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Each part has clusters of its own, so that they play beside each other.
var _ = Describe("Documents edited manually", Label("faults-documents"), func() {
	part("members, values and counters", sideRounds, memberRounds)
	part("locks", lockRounds)
	part("sessions", sessionRounds)
	part("all at once", wholeRounds)
})

// part is rounds that follow one another on the same clusters.
func part(name string, rounds ...func(on *scenes)) {
	Context(name, Ordered, ContinueOnFailure, BothStores, func() {
		on := &scenes{}

		BeforeAll(func(ctx SpecContext) {
			for store, uri := range Stores() {
				on.all = append(on.all, newScene(ctx, store, uri()))
			}
		}, NodeTimeout(ScenarioTimeout))
		AfterAll(func() {
			for _, s := range on.all {
				overlaps, longest := Load(s.c).Overlaps(), time.Duration(0)
				for _, o := range overlaps {
					longest = max(longest, o.For)
				}
				Figure(
					s.store, "%s: two runs of a key at once, where that is allowed: %d, for at most %v", name,
					len(overlaps),
					longest,
				)
			}
		})

		for _, add := range rounds {
			add(on)
		}
	})
}

// scenes are one cluster on each store.
type scenes struct{ all []*scene }

// round is a scenario about one thing done to each scene. Most of it is waiting, so all scenes play it at once.
func (on *scenes) round(text string, body func(ctx context.Context, s *scene), labels ...Labels) {
	It(text, func(ctx SpecContext) {
		var parts []func()
		for _, s := range on.all {
			parts = append(parts, func() {
				defer LogsOnPanic(s.store, s.c)
				s.begin()
				body(ctx, s)
			})
		}
		AtOnce(parts...)
	}, labels, SpecTimeout(ScenarioTimeout))
}
