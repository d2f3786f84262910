//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// applications is a cluster with an application beside each replica.
type applications struct {
	*own
	sockets string // the path of a socket is short
	keys    int
}

func newApplications(name string, keys int) *applications {
	GinkgoHelper()
	const groups = "\ngroups: [{name: topics, tasks: [{name: \"topic-{001..%03d}\", assign: {}}]}]\n"
	a := &applications{own: newOwn(name, fmt.Sprintf(groups, keys)), keys: keys}
	var err error
	a.sockets, err = os.MkdirTemp("", "shardctl-app-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(a.sockets)).To(Succeed()) })
	return a
}

func (a *applications) socket(name string) string { return filepath.Join(a.sockets, name) }

// with starts a replica whose application the guard starts.
func (a *applications) with(ctx context.Context, instance string, command ...string) *harness.Replica {
	GinkgoHelper()
	return a.start(ctx, instance, map[string]any{"app": map[string]any{
		"listen": "unix:" + a.socket(instance), "command": command,
	}})
}

// python starts the application of the scenarios.
func python() []string {
	GinkgoHelper()
	needClients("python3")
	program, err := filepath.Abs("recorder/application.py")
	Expect(err).NotTo(HaveOccurred())
	return []string{"python3", program}
}

func (a *applications) owners() map[string]history.Run {
	return Load(a.Cluster).Owners()
}

// run waits until every key runs, on so many instances.
func (a *applications) run(instances int) {
	GinkgoHelper()
	Eventually(a.owners).Should(HaveLen(a.keys))
	Eventually(func() map[string]int { return history.ByInstance(a.owners()) }).Should(HaveLen(instances))
}

// free waits until every key that ran on an instance then runs again, and says how long the longest took.
func (a *applications) free(instance string, at history.Instant) time.Duration {
	GinkgoHelper()
	longest := time.Duration(0)
	for key, before := range Load(a.Cluster).OwnersAt(at) {
		if before.Instance != instance {
			continue
		}
		Eventually(func() int64 { return a.owners()[key].Token }).Should(BeNumerically(">", before.Token), key)
		for _, next := range Load(a.Cluster).Runs(key) {
			if next.Token > before.Token {
				longest = max(longest, next.Start.Sub(before.End))
				break
			}
		}
	}
	return longest
}

// applicationOf is the process of a replica's application.
func applicationOf(r *harness.Replica) harness.Proc {
	GinkgoHelper()
	procs := r.TaskProcs()
	Expect(procs).To(HaveLen(1))
	return procs[0]
}

// five starts five replicas with an application each. These settings replace those of a configuration of the scenario.
func five(ctx context.Context, name string, settings ...map[string]any) (*applications, []*harness.Replica) {
	GinkgoHelper()
	a := newApplications(name, 20)
	for _, s := range settings {
		maps.Copy(a.header, s)
	}
	var replicas []*harness.Replica
	for _, instance := range []string{"a", "b", "c", "d", "e"} {
		replicas = append(replicas, a.with(ctx, instance, python()...))
	}
	return a, replicas
}

// That no key runs twice at once and that tokens rise is judged at the end of the cluster, by what was recorded.
var _ = Describe("An application beside each replica", Label("sqlite"), func() {
	It("loses no key and runs none twice, whatever is killed", func(ctx SpecContext) {
		a, r := five(ctx, "app-killed")
		a.run(5)

		at := history.Now()
		Expect(applicationOf(r[0]).Signal(syscall.SIGKILL)).To(Succeed())
		Figure("sqlite", "application killed: its keys run again %v after", a.free("a", at).Round(time.Millisecond))
		Expect(r[0].Running()).To(BeTrue())
		a.run(5)
		Eventually(func() string { return done(ctx, r[1], "get", "events", "-o", "wide") }).Should(MatchRegexp(
			`(?s)ApplicationReady +Ready +- +- +a .*ApplicationGone +Ended +- +a .*: its command has ended: .*killed`,
		))

		before := applicationOf(r[1])
		at, err := r[1].Kill(harness.Worker, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		Figure("sqlite", "worker killed: the keys of its application run again %v after",
			a.free("b", at).Round(time.Millisecond))
		Expect(before.Alive()).To(BeFalse(), "the guard ends the application first")
		a.run(4)

		at, err = r[2].Kill(harness.Both, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		Figure("sqlite", "guard and worker killed: the keys run again %v after", a.free("c", at).Round(time.Millisecond))
		a.run(3)

		at, err = r[3].Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		Expect(ExitCode(ctx, r[3])).To(BeZero(), r[3].LogTail(20))
		Figure("sqlite", "SIGTERM: the keys of the application run again %v after", a.free("d", at).Round(time.Millisecond))
		a.run(2)
	}, SpecTimeout(ScenarioTimeout))

	It("is killed when it is frozen, while its replica goes on", func(ctx SpecContext) {
		a, r := five(ctx, "app-frozen")
		a.run(5)
		frozen, at := applicationOf(r[0]), history.Now()
		Expect(frozen.Signal(syscall.SIGSTOP)).To(Succeed())
		Figure("sqlite", "application frozen: its keys run again %v after", a.free("a", at).Round(time.Millisecond))
		Expect(frozen.Alive()).To(BeFalse())
		Expect(r[0].Running()).To(BeTrue())
		a.run(5)
		Eventually(func() string { return done(ctx, r[1], "get", "events") }).Should(MatchRegexp(
			`ApplicationGone +Silent +- +a +-`,
		))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is killed when it is frozen and the session of its replica is lost, while its replica goes on",
		func(ctx SpecContext) {
			a, r := five(ctx, "app-lost")
			a.run(5)
			session, err := sessionOf(ctx, r[0], "a")
			Expect(err).NotTo(HaveOccurred())
			frozen := applicationOf(r[0])
			Expect(frozen.Signal(syscall.SIGSTOP)).To(Succeed())
			AllowOverlap(a.Cluster, "its session was deleted", func(o history.Overlap) bool {
				return o.Earlier.PID == frozen.PID && o.Earlier.End < o.Later.Start.Add(Lease/4)
			})
			uri, _ := a.header["store"].(map[string]any)["uri"].(string)
			forget(ctx, strings.TrimPrefix(uri, "sqlite:"), `"own_sessions" WHERE id = ?`, session)
			Eventually(frozen.Alive).WithPolling(time.Millisecond).Should(BeFalse())
			a.run(5)
			Expect(r[0].Running()).To(BeTrue(), r[0].LogTail(20))
		}, SpecTimeout(ScenarioTimeout))
})

// Whoever is frozen with SQLite's write lock in hand keeps all others from writing, which would hide what is looked at.
var _ = Describe("An application whose replica is frozen", Label("mongodb"), func() {
	It("has stopped before its keys run elsewhere, but for one that is frozen too, until it wakes",
		func(ctx SpecContext) {
			a, replicas := five(ctx, "app-frozen-replica",
				map[string]any{"store": map[string]any{"uri": testmongo.Shared(GinkgoTB())}})
			a.run(5)
			for i, frozen := range []struct {
				what        string
				part        harness.Part
				application bool
			}{
				{"worker", harness.Worker, false},
				{"guard and worker", harness.Both, false},
				{"guard, worker and application", harness.Both, true},
			} {
				By(frozen.what)
				a.freeze(ctx, replicas[i], frozen.what, frozen.part, frozen.application)
			}
		}, SpecTimeout(ScenarioTimeout))
})

// freeze stops parts of a replica, and its application if so asked, until its keys run elsewhere. Then all go on, the
// application first: that is the worst order.
func (a *applications) freeze(
	ctx context.Context, r *harness.Replica, what string, part harness.Part, andApplication bool,
) {
	GinkgoHelper()
	const afterThaw = 2 * time.Second // in which an application ends that was frozen
	// A key that is on its way elsewhere would start there before the freeze, and not again.
	Eventually(a.CheckSpread).WithContext(ctx).WithArguments(a.keys).Should(Succeed())
	app, keys := applicationOf(r), KeysOf(a.Cluster, r)
	var woken history.Instant
	if andApplication {
		AllowOverlap(a.Cluster, "all that could end the application was frozen, until it woke",
			func(o history.Overlap) bool {
				return o.Earlier.Instance == r.Name && (woken == 0 || o.Earlier.End <= woken.Add(afterThaw))
			})
	}
	at, err := r.Kill(part, syscall.SIGSTOP)
	Expect(err).NotTo(HaveOccurred())
	if andApplication {
		Expect(app.Signal(syscall.SIGSTOP)).To(Succeed())
	}
	last := EventuallyTaken(a.Cluster, keys, at)
	ExpectWithin(a.Cluster, Lease+AfterLease, at, last, "the keys of an application whose replica is frozen")

	woken = history.Now()
	if andApplication {
		Expect(app.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(app.Alive).WithPolling(time.Millisecond).Should(BeFalse(), "it ends by its own clock")
	}
	gone := history.Now()
	Expect(r.Kill(part, syscall.SIGCONT)).Error().NotTo(HaveOccurred())
	Eventually(app.Alive).Should(BeFalse(), "another one belongs to the next session")
	Eventually(func(g Gomega) { // a replica that cannot be sure that nothing runs ends as well
		g.Expect(history.ByInstance(a.owners())).To(HaveLen(len(a.Live())))
	}).Should(Succeed())
	limit := ""
	if andApplication {
		limit = fmt.Sprintf("; the application went on for up to %v when it woke", gone.Sub(woken).Round(time.Millisecond))
	}
	Figure("mongodb", "frozen %s: its %d keys run again %v after%s", what, len(keys),
		last.Sub(at).Round(time.Millisecond), limit)
}
