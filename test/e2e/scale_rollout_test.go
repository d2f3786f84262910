//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("A hundred keys on five replicas", Label("faults-scale", Fleet, Nightly), func() {
	EachStore("They", func(store string, uri func() string) {
		const replicas, tasks = 5, 100
		var (
			c         *harness.Cluster
			oldProg   harness.Variant
			newProg   harness.Variant
			newerProg harness.Variant
		)

		BeforeAll(func() {
			c = NewCluster("rollout-"+store, harness.Options{StoreURI: uri(), Tasks: tasks, Recorder: slow})
			NothingLost(c)
			for name, v := range map[string]*harness.Variant{"one": &oldProg, "two": &newProg, "three": &newerProg} {
				program, err := harness.AnotherRevision(Bins.Shardctl, Work, store+name)
				Expect(err).NotTo(HaveOccurred())
				v.Program = program
			}
		})

		// replaced replaces n of the given replicas, the oldest first, as an orchestrator with a surge of one does.
		replaced := func(ctx context.Context, old []*harness.Replica, n int, by harness.Variant, names string) {
			for i, r := range old[:n] {
				EventuallyReady(ctx, start(ctx, c, fmt.Sprintf("%s-%d", names, i+1), by))
				stopOrderly(ctx, r)
			}
		}

		It("move once each in a rolling update that starts each new replica before it stops an old one",
			func(ctx SpecContext) {
				for i := range replicas {
					start(ctx, c, fmt.Sprintf("one-%d", i+1), oldProg)
				}
				eventuallySpread(ctx, c, tasks)
				at := history.Now()
				replaced(ctx, c.Live(), replicas, newProg, "two")
				eventuallySpread(ctx, c, tasks)
				h := Load(c)
				moves := len(h.Started(at, history.Now()))
				Figure(store, "rolling update of %d replicas with %d keys, surge 1: %d moves in all (at most %d), in "+
					"%v, gaps %s",
					replicas, tasks, moves, tasks+replicas, inMs(history.Now().Sub(at)), gapsSince(h, at))
				Expect(moves).To(BeNumerically("<=", tasks+replicas), "each key moves once, and few a second time")
				ExpectOneRunEach(c)
			}, SpecTimeout(ScenarioTimeout))

		It("move a bounded number of times in an update that is rolled back half-way", func(ctx SpecContext) {
			before := c.Live()
			Expect(before).To(HaveLen(replicas))
			at := history.Now()
			const half = 2
			replaced(ctx, before, half, newerProg, "three")
			turned := history.Now()
			there := len(Load(c).Started(at, turned))
			live := c.Live()
			replaced(ctx, live[len(live)-half:], half, newProg, "back")
			eventuallySpread(ctx, c, tasks)
			h := Load(c)
			back := len(h.Started(turned, history.Now()))
			Figure(
				store, "rolling update rolled back after %d of %d: %d moves there, %d back, gaps %s", half, replicas,
				there, back, gapsSince(h, at),
			)
			// There and back half of the replicas' keys move; and each of the few steps may cost the balance a key for
			// each replica.
			const once = half * tasks / replicas
			Expect(there + back).To(BeNumerically("<=", 2*once+2*half*replicas))
			ExpectOneRunEach(c)
		}, SpecTimeout(ScenarioTimeout))

		It("all come back when all replicas are restarted at once, in order or by kill -9", func(ctx SpecContext) {
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				at := history.Now()
				for _, r := range c.Live() {
					_, err := r.Kill(
						map[bool]harness.Part{true: harness.Both, false: harness.Guard}[sig == syscall.SIGKILL], sig,
					)
					Expect(err).NotTo(HaveOccurred())
				}
				for _, r := range c.Live() {
					_, err := r.Wait(ctx)
					Expect(err).NotTo(HaveOccurred())
				}
				ended := history.Now()
				for i := range replicas {
					start(ctx, c, fmt.Sprintf("two-%d", i+1), newProg)
				}
				eventuallySpread(ctx, c, tasks)
				h := Load(c)
				Figure(store, "all %d replicas restarted at once by %v: all %d keys run again %v after the first "+
					"signal, %v after the last process was gone",
					replicas, sig, tasks, inMs(h.LastStart(at, history.Now()).Sub(at)), inMs(h.LastStart(at, history.Now()).Sub(ended)))
				Expect(len(h.Started(at, history.Now()))).To(BeNumerically(">=", tasks))
				ExpectOneRunEach(c)
			}
		}, SpecTimeout(ScenarioTimeout))
	}, Ordered, Serial)
})
