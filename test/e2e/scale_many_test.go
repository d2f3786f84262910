//go:build linux

package e2e_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// slow records less often: there are many recorders, and the replicas need the processors.
var slow = []string{"--period", "100ms"}

var _ = Describe("Many replicas", Label("faults-scale", Nightly), func() {
	EachStore("All", func(store string, uri func() string) {
		It("start at once, and each of a hundred keys runs once, as many on each replica", func(ctx SpecContext) {
			// A long lease: so many processes start on one machine that heartbeats are late, which is not the subject.
			const tasks, lease = 100, time.Minute
			// A file that all of them write to is for the few of one machine.
			replicas := map[string]int{"mongodb": 50, "sqlite": 20}[store]
			c := NewCluster(
				"start-"+store, harness.Options{StoreURI: uri(), Tasks: tasks, Lease: lease, Recorder: slow},
			)
			began := history.Now()
			Expect(c.Add(ctx, replicas)).To(Succeed())
			eventuallyAlive(ctx, c)
			allRun := Load(c).LastStart(began, history.Now())
			eventuallySpread(ctx, c, tasks)
			h := Load(c)
			counts := history.ByInstance(h.Owners())
			Expect(counts).To(HaveLen(replicas))
			for name, n := range counts {
				Expect(n).To(Equal(tasks/replicas), name)
			}
			starts := len(h.Started(began, history.Now()))
			Figure(store, "%d replicas started at once (T = %v): all %d keys run %v after the first process was "+
				"started, evenly after %v, %d starts in all",
				replicas, lease, tasks, inMs(allRun.Sub(began)), inMs(h.LastStart(began, history.Now()).Sub(began)), starts)
		}, SpecTimeout(ScenarioTimeout))
	}, Label(Fleet), Serial)
})

var _ = Describe("Many of twenty replicas", Label("faults-scale", Nightly), func() {
	EachStore("They", func(store string, uri func() string) {
		const replicas, tasks, lease = 20, 40, 8 * time.Second
		var c *harness.Cluster

		BeforeAll(func() {
			c = NewCluster("dying-"+store, harness.Options{StoreURI: uri(), Tasks: tasks, Lease: lease, Recorder: slow})
			NothingLost(c)
		})

		// dies kills n replicas at once and waits until the others have everything.
		dies := func(ctx SpecContext, of, n int) {
			Expect(c.Scale(ctx, of)).To(Succeed())
			eventuallySpread(ctx, c, tasks)
			dying := c.Live()[:n]
			at, keys := killAll(c, dying)
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			eventuallySpread(ctx, c, tasks)
			h := Load(c)
			for _, r := range dying {
				Expect(h.AliveAfter(r.Name, at.Add(lease*9/10))).To(
					BeEmpty(), "nothing of the dead outlives the hard deadline",
				)
			}
			ExpectOneRunEach(c)
			_, last := h.FirstStarts(keys, at)
			Figure(store, "kill -9 of %d of %d replicas at once, guards and workers: their %d tasks elsewhere "+
				"within %v (T + 1 s is %v), gaps %s",
				n, of, len(keys), inMs(last.Sub(at)), lease+AfterLease, gapsSince(h, at))
			ExpectWithin(c, lease+AfterLease, at, last, "the last key elsewhere")
		}

		for _, scenario := range []struct{ of, dying int }{{replicas, 10}, {10, 9}} {
			It(fmt.Sprintf(
				"%d of %d die at once, and the others take everything over", scenario.dying, scenario.of,
			), func(ctx SpecContext) {
				dies(ctx, scenario.of, scenario.dying)
			}, SpecTimeout(ScenarioTimeout))
		}
	}, Ordered, ContinueOnFailure, Label(Fleet), Serial)
})
