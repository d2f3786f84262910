//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// system is one way to run keys, with what it measured in all rounds.
type system struct {
	name string
	// cluster makes an empty one, and start starts an instance of it.
	cluster func() (c *harness.Cluster, start func(ctx context.Context, instance string) *harness.Replica)

	rolling, joining []time.Duration // gaps
	stall            time.Duration   // the longest while they were measured
}

const (
	rolloutKeys      = 100
	rolloutInstances = 5
)

// play updates five instances one after the other, and then has a sixth join.
func (s *system) play(ctx context.Context) {
	GinkgoHelper()
	c, start := s.cluster()
	balanced := func(instances int) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			owned := history.ByInstance(Load(c).Owners())
			g.Expect(owned).To(HaveLen(instances), s.name)
			for instance, n := range owned {
				g.Expect(n).To(BeNumerically("~", rolloutKeys/instances, 1), "%s: %s of %v", s.name, instance, owned)
			}
		}).WithContext(ctx).Should(Succeed())
	}
	gaps := func(since history.Instant) []time.Duration {
		s.stall = max(s.stall, Stall(c, since, history.Now()))
		return history.Lengths(Load(c).Gaps(since, history.Now()))
	}
	var replicas []*harness.Replica
	for i := range rolloutInstances {
		replicas = append(replicas, start(ctx, fmt.Sprintf("i%d", i+1)))
	}
	balanced(rolloutInstances)

	began := history.Now()
	for i, r := range replicas {
		Expect(r.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, r)).To(BeZero(), r.LogTail(20))
		replicas[i] = start(ctx, r.Name)
		balanced(rolloutInstances)
	}
	s.rolling = append(s.rolling, gaps(began)...)

	began = history.Now()
	start(ctx, "joined")
	balanced(rolloutInstances + 1)
	s.joining = append(s.joining, gaps(began)...)
	c.Close() // what runs besides takes time from the others
}

func commands() (*harness.Cluster, func(context.Context, string) *harness.Replica) {
	GinkgoHelper()
	c := NewCluster("rollout-exec", harness.Options{StoreURI: SQLiteURI(), Tasks: rolloutKeys})
	return c, func(ctx context.Context, instance string) *harness.Replica {
		GinkgoHelper()
		r, err := c.Start(ctx, instance)
		Expect(err).NotTo(HaveOccurred())
		return r
	}
}

// pythons have a thread for each key, unless the arguments say otherwise.
func pythons(args ...string) func() (*harness.Cluster, func(context.Context, string) *harness.Replica) {
	return func() (*harness.Cluster, func(context.Context, string) *harness.Replica) {
		GinkgoHelper()
		a := newApplications("rollout-app", rolloutKeys)
		a.header["rebalance"] = map[string]any{"settle": Settle.String()}
		return a.Cluster, func(ctx context.Context, instance string) *harness.Replica {
			GinkgoHelper()
			return a.with(ctx, instance, append(python(), args...)...)
		}
	}
}

func shards(ctx context.Context) func() (*harness.Cluster, func(context.Context, string) *harness.Replica) {
	GinkgoHelper()
	program, err := harness.BuildProgram(ctx, Work, "./test/e2e/recorder/shard")
	Expect(err).NotTo(HaveOccurred())
	return func() (*harness.Cluster, func(context.Context, string) *harness.Replica) {
		GinkgoHelper()
		uri := SQLiteURI()
		c := NewCluster("rollout-shard", harness.Options{StoreURI: uri})
		return c, func(_ context.Context, instance string) *harness.Replica {
			GinkgoHelper()
			r, err := c.StartProgram(instance, program, "--store", uri, "--instance", instance,
				"--keys", fmt.Sprint(rolloutKeys), "--lease", Lease.String(), "--settle", Settle.String())
			Expect(err).NotTo(HaveOccurred())
			return r
		}
	}
}

// compared is a table of the gaps of systems; the ratios are those of the first system to each.
func compared(systems []*system) string {
	var b strings.Builder
	for _, what := range []struct {
		name string
		of   func(*system) []time.Duration
	}{
		{"rolling update", func(s *system) []time.Duration { return s.rolling }},
		{"scale-out", func(s *system) []time.Duration { return s.joining }},
	} {
		fmt.Fprintf(&b, "\n%-15s %-10s %5s %8s %6s %8s %6s", what.name, "", "keys", "p50 ms", "ratio", "p99 ms", "ratio")
		for _, s := range systems {
			gaps := what.of(s)
			fmt.Fprintf(&b, "\n%-15s %-10s %5d", "", s.name, len(gaps))
			for _, p := range []float64{50, 99} {
				its, first := history.Percentile(gaps, p), history.Percentile(what.of(systems[0]), p)
				fmt.Fprintf(&b, " %8.1f %6.2f", float64(its.Microseconds())/1000, float64(first)/float64(its))
			}
		}
	}
	return b.String()
}

var _ = Describe("A rolling update of five instances", Label("sqlite", Fleet, Nightly), Serial, func() {
	It("has gaps of an application of at most 1.5 times those of commands", func(ctx SpecContext) {
		app, exec := &system{name: "python", cluster: pythons()}, &system{name: "exec", cluster: commands}
		systems := []*system{
			app, {name: "coroutines", cluster: pythons("--coroutines")}, exec, {name: "pkg/shard", cluster: shards(ctx)},
		}
		for range 2 {
			for _, s := range systems {
				s.play(ctx)
			}
		}
		Figure("sqlite", "gaps of two rounds in turn%s", compared(systems))
		for _, p := range []float64{50, 99} {
			limit := history.Percentile(exec.rolling, p)*3/2 + app.stall
			Expect(history.Percentile(app.rolling, p)).To(BeNumerically("<=", limit), "p%v", p)
		}
		Expect(history.Percentile(app.rolling, 99)).To(BeNumerically("<=", HandedOver+app.stall))
	}, SpecTimeout(8*time.Minute))
})
