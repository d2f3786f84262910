//go:build linux

package stores_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/seeds"
)

// chaos is random faults of replicas, of their network, and of the store.
type chaos struct {
	*rig
	random *rand.Rand
	names  int            // replicas started
	count  map[string]int // faults, by name
}

// fault is one that is over when do returns.
type fault struct {
	name string
	do   func(ctx context.Context, one *harness.Replica)
}

// chaos has faults for a minute, and then wants everything back.
func (r *rig) chaos(ctx SpecContext) {
	GinkgoHelper()
	seed := seeds.Of(GinkgoTB(), 0)
	s := &chaos{rig: r, random: rand.New(rand.NewPCG(seed, 0)), count: map[string]int{}}
	faults := s.faults()
	began := history.Now()
	for end := time.Now().Add(*chaosFlag); time.Now().Before(end); {
		f, live := faults[s.random.IntN(len(faults))], r.cluster.Live()
		By(f.name)
		s.count[f.name]++
		f.do(ctx, live[s.random.IntN(len(live))])
		s.wait(ctx, 3*time.Second)
		s.refill(ctx)
	}
	calm := history.Now()
	r.balanced(ctx)
	h := Load(r.cluster)
	Figure(r.name(), "chaos of %v (seed %d, faults %v): %d runs, all %d keys back %s after its end", *chaosFlag, seed,
		s.count, len(h.Started(began, calm)), tasks, ms(history.Now().Sub(calm)))
	Expect(h.Keys()).To(Equal(r.cluster.Keys()))
}

// faults are all there are, each as likely as any other.
func (s *chaos) faults() []fault {
	signal := func(part harness.Part, sig syscall.Signal) func(context.Context, *harness.Replica) {
		// it may be ending by itself
		return func(_ context.Context, one *harness.Replica) { _, _ = one.Kill(part, sig) }
	}
	lasting := func(begin, end func(), most time.Duration) func(context.Context, *harness.Replica) {
		return func(ctx context.Context, _ *harness.Replica) {
			begin()
			s.wait(ctx, most)
			end()
		}
	}
	return []fault{
		{"replica killed", signal(harness.Both, syscall.SIGKILL)},
		{"worker killed", signal(harness.Worker, syscall.SIGKILL)},
		{"guard killed", signal(harness.Guard, syscall.SIGKILL)},
		{"replica stopped", signal(harness.Guard, syscall.SIGTERM)},
		{"worker frozen", func(ctx context.Context, one *harness.Replica) {
			_, _ = one.Kill(harness.Worker, syscall.SIGSTOP)
			s.wait(ctx, 3*Lease/2)
			_, _ = one.Kill(harness.Worker, syscall.SIGCONT)
		}},
		{"connections broken", func(context.Context, *harness.Replica) { s.link.Cut() }},
		{"link blocked", lasting(s.link.Block, s.link.Unblock, 3*Lease/2)},
		{"store frozen", lasting(s.server.Freeze, s.server.Thaw, Lease)},
		{"store killed", func(ctx context.Context, _ *harness.Replica) {
			s.server.Kill()
			s.wait(ctx, Lease)
			Expect(s.restart(ctx)).To(Succeed())
		}},
	}
}

// refill starts replicas until there are three, every other by way of the link.
func (s *chaos) refill(ctx context.Context) {
	GinkgoHelper()
	for len(s.cluster.Live()) < replicas {
		s.names++
		s.start(ctx, fmt.Sprintf("chaos-%d", s.names), s.names%2 == 0)
	}
}

// wait waits for some time between an eighth of the lease and most.
func (s *chaos) wait(ctx context.Context, most time.Duration) {
	GinkgoHelper()
	const least = Lease / 8
	WaitUntil(ctx, history.Now().Add(least+time.Duration(s.random.Int64N(int64(most-least)))))
}
