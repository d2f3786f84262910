//go:build linux

package scale_test

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Offsets of clocks never appear in the protocol. What does read the wall clock is schedules and SQLite's store, which
// has none but its clients'. On one machine they share it, so that this is worse than what can be.
var _ = Describe("The wall clock of one of three replicas", func() {
	EachStore("It", func(store string, uri func() string) {
		const tasks = 15
		var (
			c     *harness.Cluster
			clock *harness.WallClock
			wrong *harness.Replica // whose clock is set
			other int              // counts the others
			prog  string
		)
		next := func(ctx context.Context) {
			other++
			start(ctx, c, "right-"+string(rune('a'+other)), harness.Variant{Program: prog})
		}
		BeforeAll(func(ctx SpecContext) {
			prog = laterProgram(ctx)
			c = NewCluster("clock-"+store, harness.Options{StoreURI: uri(), Tasks: tasks})
			clock = harness.NewWallClock(filepath.Join(Work, "clock-"+store))
			wrong = start(ctx, c, "wrong", harness.Variant{Program: prog, Env: []string{clock.Env()}})
			next(ctx)
			next(ctx)
		}, NodeTimeout(ScenarioTimeout))
		BeforeEach(func(ctx SpecContext) { eventuallySpread(ctx, c, tasks) }, NodeTimeout(ScenarioTimeout))
		AfterEach(func() { LogsOnFailure(c) })

		// settled holds that nothing restarts while the clock is as it is, for a lease and more.
		settled := func(ctx context.Context, what string, set func(at history.Instant)) {
			began := history.Now()
			set(began)
			WaitUntil(ctx, began.Add(Lease+Lease/2))
			h := Load(c)
			Expect(h.Started(began, history.Now())).To(BeEmpty(), "%s: nothing restarts", what)
			Expect(h.OwnersAt(history.Now())).To(HaveLen(tasks), what)
		}
		// replacedOne kills one of the others, has a new one take its place, and holds that all goes as it always does.
		replacedOne := func(ctx context.Context, what string) {
			dying := c.Live()[1]
			Expect(dying).NotTo(Equal(wrong))
			at, keys := killAll(c, []*harness.Replica{dying})
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			eventuallySpread(ctx, c, tasks)
			fell := lastStartOf(Load(c), keys, at).Sub(at)
			joined := history.Now()
			next(ctx)
			eventuallySpread(ctx, c, tasks)
			moved := len(Load(c).Started(joined, history.Now()))
			Figure(store, "one of three wall clocks %s: kill -9 of another replica: %d tasks elsewhere within %v (T "+
				"+ 1 s is %v); a third joins: %d moves, all say the same after %v",
				what, len(keys), ms(fell), Lease+time.Second, moved, ms(history.Now().Sub(joined)))
			Expect(moved).To(Equal(tasks/3), "exactly the keys of the one that joined")
			ExpectOneRunEach(c)
		}

		for _, scenario := range []struct {
			what string
			off  time.Duration
		}{{"two hours ahead", 2 * time.Hour}, {"two hours behind", -2 * time.Hour}} {
			It("is "+scenario.what, func(ctx SpecContext) {
				settled(ctx, scenario.what, func(history.Instant) { Expect(clock.Set(scenario.off)).To(Succeed()) })
				replacedOne(ctx, scenario.what)
			}, SpecTimeout(ScenarioTimeout))
		}

		It("jumps by two hours every second", func(ctx SpecContext) {
			jumping, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				for off := time.Hour; ; off = -off {
					select {
					case <-time.After(time.Second):
					case <-jumping.Done():
						ended <- nil
						return
					}
					if err := clock.Set(off); err != nil {
						ended <- err
						return
					}
				}
			}()
			DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
			settled(ctx, "jumping", func(history.Instant) {})
			replacedOne(ctx, "jumping by two hours every second")
		}, SpecTimeout(ScenarioTimeout))
	}, Ordered, ContinueOnFailure)
})
