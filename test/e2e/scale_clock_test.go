//go:build linux

package e2e_test

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
var _ = Describe("The wall clock of one of three replicas", Label("faults-scale", Nightly), func() {
	EachStore("Three replicas", func(store string, uri func() string) {
		It("may be two hours ahead or behind, or jump by two hours every second", func(ctx SpecContext) {
			prog := laterProgram(ctx)
			c := NewCluster("clock-"+store, harness.Options{StoreURI: uri(), Tasks: 15})
			NothingLost(c)
			clock := harness.NewWallClock(filepath.Join(Work, "clock-"+store))
			s := oneWrong{store: store, c: c, prog: prog}
			s.wrong = start(ctx, c, "wrong", harness.Variant{Program: prog, Env: []string{clock.Env()}})
			s.next(ctx)
			s.next(ctx)
			eventuallySpread(ctx, c, c.Tasks)

			s.play(ctx, "two hours ahead", func() { Expect(clock.Set(2 * time.Hour)).To(Succeed()) })
			if store == "mongodb" { // SQLite has no clock but its clients'
				ExpectShown(ctx, "clock-skew", s.wrong)
			}
			s.play(ctx, "two hours behind", func() { Expect(clock.Set(-2 * time.Hour)).To(Succeed()) })
			stop := jump(clock)
			defer stop()
			s.play(ctx, "jumping by two hours every second", func() {})
		}, SpecTimeout(ScenarioTimeout))
	})
})

// oneWrong is a cluster in which the clock of one replica is wrong.
type oneWrong struct {
	store string
	c     *harness.Cluster
	wrong *harness.Replica // whose clock is set
	other int              // counts the others
	prog  string
}

// next starts another replica whose clock is right.
func (s *oneWrong) next(ctx context.Context) {
	s.other++
	start(ctx, s.c, "right-"+string(rune('a'+s.other)), harness.Variant{Program: s.prog})
}

// play sets the clock, and holds that nothing restarts for a lease and more. Then it kills one of the others, has a new
// one take its place, and holds that all goes as it always does.
func (s *oneWrong) play(ctx context.Context, what string, set func()) {
	GinkgoHelper()
	began := history.Now()
	set()
	WaitUntil(ctx, began.Add(Lease+Lease/2))
	h := Load(s.c)
	Expect(h.Started(began, history.Now())).To(BeEmpty(), "%s: nothing restarts", what)
	Expect(h.Owners()).To(HaveLen(s.c.Tasks), what)

	dying := s.c.Live()[1]
	Expect(dying).NotTo(Equal(s.wrong))
	at, keys := killAll(s.c, []*harness.Replica{dying})
	Eventually(s.c.CheckTaken).WithArguments(keys, at).Should(Succeed())
	eventuallySpread(ctx, s.c, s.c.Tasks)
	_, fell := Load(s.c).FirstStarts(keys, at)
	joined := history.Now()
	s.next(ctx)
	eventuallySpread(ctx, s.c, s.c.Tasks)
	moved := len(Load(s.c).Started(joined, history.Now()))
	Figure(s.store, "one of three wall clocks %s: kill -9 of another replica: %d tasks elsewhere within %v (T "+
		"+ 1 s is %v); a third joins: %d moves, all say the same after %v",
		what, len(keys), inMs(fell.Sub(at)), Lease+AfterLease, moved, inMs(history.Now().Sub(joined)))
	ExpectWithin(s.c, Lease+AfterLease, at, fell, "the last key elsewhere")
	Expect(moved).To(Equal(s.c.Tasks/3), "exactly the keys of the one that joined")
}

// jump sets a clock an hour ahead and an hour behind, in turn, every second until it is stopped.
func jump(clock *harness.WallClock) (stop func()) {
	done := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		for off := time.Hour; ; off = -off {
			select {
			case <-time.After(time.Second):
			case <-done:
				ended <- nil
				return
			}
			if err := clock.Set(off); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() {
		GinkgoHelper()
		close(done)
		Expect(<-ended).To(Succeed())
	}
}
