//go:build linux

package documents_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Documents edited manually", Ordered, ContinueOnFailure, BothStores, func() {
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
			Figure(s.store, "two runs of a key at once, where that is allowed: %d, for at most %v", len(overlaps), longest)
		}
	})

	sideRounds(on)
	memberRounds(on)
	lockRounds(on)
	sessionRounds(on)
	wholeRounds(on)
})

// scenes are one cluster on each store.
type scenes struct{ all []*scene }

// round is a scenario about one thing done to each scene. Most of it is waiting, so all scenes play it at once.
func (on *scenes) round(text string, body func(ctx context.Context, s *scene)) {
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
	}, SpecTimeout(ScenarioTimeout))
}
