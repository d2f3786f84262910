//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// pod is where a container of a scenario lives: its identity, and the directory that outlives it.
type pod struct{ uid, dir string }

func (p pod) fields() map[string]any {
	return map[string]any{"pod": map[string]any{"uid": p.uid, "container": "shardctl", "dir": p.dir}}
}

func (p pod) record() string { return filepath.Join(p.dir, "place.json") }

// start starts a container in the pod.
func (p pod) start(ctx SpecContext, c *harness.Cluster, name string, args ...string) *harness.Replica {
	GinkgoHelper()
	r, err := c.StartContainer(ctx, name, p.fields(), args...)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// dieWhole kills the first process of a container, and with it all others, and waits until they are gone.
func dieWhole(ctx SpecContext, r *harness.Replica) history.Instant {
	GinkgoHelper()
	at, err := r.Kill(harness.Guard, syscall.SIGKILL)
	Expect(err).NotTo(HaveOccurred())
	_, err = r.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	return at
}

// sessionOf is the live session of an instance in the eyes of another.
func sessionOf(ctx SpecContext, eyes *harness.Replica, instance string) (string, error) {
	all, err := eyes.Client.Instances(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if i.Name == instance && i.State == "live" {
			return i.Session, nil
		}
	}
	return "", fmt.Errorf("%s sees no live %s", eyes.Name, instance)
}

var _ = Describe("A container that is killed whole and started again", func() {
	EachStore("In place", func(store string, uri func() string) {
		const tasks, limit, lease = 15, 8, 10 * time.Second
		var (
			c          *harness.Cluster
			pods       map[string]pod
			a, b, d    *harness.Replica
			doubles    []harness.Problem
			neverTwice = func(ctx SpecContext, eyes *harness.Replica) error {
				status, err := eyes.Client.Status(ctx)
				doubles = append(doubles, status.ProblemsOf("DuplicateInstance")...)
				return err
			}
		)

		BeforeAll(func(ctx SpecContext) {
			c = NewCluster(
				"in-place-"+store,
				harness.Options{StoreURI: uri(), Tasks: tasks, Cap: limit, Lease: lease, Settle: lease},
			)
			pods = map[string]pod{}
			for _, name := range []string{"a", "b", "d"} {
				dir, err := os.MkdirTemp(Work, "pod-")
				Expect(err).NotTo(HaveOccurred())
				pods[name] = pod{"uid-of-" + name, dir}
			}
			a, b, d = pods["a"].start(ctx, c, "a"), pods["b"].start(ctx, c, "b"), pods["d"].start(ctx, c, "d")
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
		}, NodeTimeout(ScenarioTimeout))

		It("takes its keys back at once, and no other's move", func(ctx SpecContext) {
			keys := KeysOf(c, b)
			at := dieWhole(ctx, b)
			b = pods["b"].start(ctx, c, "b")
			Eventually(func() error {
				return errors.Join(
					neverTwice(ctx, a), c.CheckTaken(keys, at),
				)
			}).Should(Succeed())
			taken := history.Now()
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())

			h := Load(c)
			Expect(h.Moves(at, taken)).To(BeEmpty())
			for _, run := range h.Started(at, history.Now()) {
				Expect(keys).To(ContainElement(run.Key), "a key of another replica was started again")
				Expect(run.Instance).To(Equal("b"))
			}
			all, err := a.Client.Tasks(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, t := range all {
				if t.Instance == "b" {
					Expect(t.Reason).To(Equal("Restarted"), t.Message)
					Expect(t.Message).To(ContainSubstring("its container ended and was started again"))
				}
			}
			gaps := history.Lengths(h.Gaps(at, taken))
			for _, gap := range h.Gaps(at, taken) {
				ExpectWithin(c, lease, gap.Old.End, gap.New.Start, gap.New.Key+": it waited for the lease")
			}
			Expect(doubles).To(BeEmpty())
			ExpectOneRunEach(c)
			Figure(store, "a container killed whole and started again in place, T %v: its %d keys were without a "+
				"run for %s, 0 moved", lease, len(keys), history.Summary(gaps))
		}, SpecTimeout(ScenarioTimeout))

		It("waits for the lease as another pod, or with a record that is torn", func(ctx SpecContext) {
			keys := append(KeysOf(c, b), KeysOf(c, d)...)
			at := dieWhole(ctx, b)
			dieWhole(ctx, d)
			pods["b"] = pod{"uid-of-another", pods["b"].dir}
			Expect(os.Truncate(pods["d"].record(), 40)).To(Succeed())
			b, d = pods["b"].start(ctx, c, "b"), pods["d"].start(ctx, c, "d")
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
			for _, run := range Load(c).Started(at, history.Now()) {
				Expect(run.Start.Sub(at)).To(BeNumerically(">", lease/2), "%v did not wait", run)
			}
			Expect([]string{b.Log(), d.Log()}).NotTo(ContainElement(ContainSubstring("Restarted in place")))
			Expect(doubles).To(BeEmpty())
			ExpectOneRunEach(c)
			Figure(
				store, "the same as another pod, and with a torn record: %s",
				history.Summary(history.Lengths(Load(c).Gaps(at, history.Now()))),
			)
		}, SpecTimeout(ScenarioTimeout))

		It("leaves a living one alone that has its place", func(ctx SpecContext) {
			before, err := sessionOf(ctx, a, "b")
			Expect(err).NotTo(HaveOccurred())
			twin := pods["b"].start(ctx, c, "e")
			Eventually(twin.Log).Should(ContainSubstring("another process holds"))
			Eventually(func() (string, error) { return sessionOf(ctx, a, "e") }).ShouldNot(BeEmpty())
			Consistently(func() (string, error) { return sessionOf(ctx, a, "b") }, "3s").Should(Equal(before))
			dieWhole(ctx, twin)
			Expect(pods["b"].record()).To(BeARegularFile())
			ExpectOneRunEach(c)
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))

		It("has nothing to do where its guard has marked its session already", func(ctx SpecContext) {
			keys := KeysOf(c, d)
			at, err := d.Kill(harness.Worker, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			_, err = d.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			d = pods["d"].start(ctx, c, "d")
			Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
			Eventually(d.Log).Should(ContainSubstring("Restarted in place"))
			Eventually(func() (string, error) { return sessionOf(ctx, d, "d") }).ShouldNot(BeEmpty())
			ExpectOneRunEach(c)
			Expect(c.Scale(ctx, 0)).To(Succeed())
			Expect(c.Leftovers()).To(BeEmpty())
			text, err := os.ReadFile(pods["d"].record())
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(ContainSubstring(`"sessions":{}`), "what ends in order leaves nothing behind")
		}, Label(Nightly), SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"), Ordered)
})

var _ = Describe("A container that is killed whole while an HTTP endpoint works for it", Label("sqlite"), func() {
	It("takes the HTTP endpoint's key back only when its time is over", func(ctx SpecContext) {
		const lease = 10 * time.Second
		far := newEndpoint()
		c := NewCluster("in-place-far", harness.Options{StoreURI: SQLiteURI(), Tasks: 2, Lease: lease, Settle: lease})
		dir, err := os.MkdirTemp(Work, "pod-")
		Expect(err).NotTo(HaveOccurred())
		more := filepath.Join(dir, "far.yaml")
		text := fmt.Sprintf("groups: [{name: far, tasks: [{name: side, http: {url: %q, timeout: 1s}}]}]\n", far.URL)
		Expect(os.WriteFile(more, []byte(text), 0o600)).To(Succeed())
		home := pod{"uid-of-a", dir}
		a := home.start(ctx, c, "a", "--config", more)
		Eventually(func() []string { return far.events("far/side") }).Should(ContainElement("start"))
		Eventually(c.KeysOf).WithArguments("a").Should(HaveLen(2))
		Expect(os.ReadFile(home.record())).To(ContainSubstring("far/side"), "a grant is noted before it is sent")

		at := dieWhole(ctx, a)
		before := far.of("far/side")
		home.start(ctx, c, "a", "--config", more)
		Eventually(c.CheckTaken).WithArguments(c.Keys(), at).Should(Succeed())
		Expect(far.of("far/side")).To(
			HaveLen(len(before)), "its commands run again, and the HTTP endpoint is left alone",
		)
		Eventually(func() int { return len(far.of("far/side")) }).Should(BeNumerically(">", len(before)))

		again := far.of("far/side")[len(before)]
		Expect(again.Event()).To(Equal("start"))
		for _, call := range before {
			Expect(again.At).To(
				BeTemporally(">", call.Until()), "the HTTP endpoint may still work under token %d", call.Token(),
			)
			Expect(again.Token()).To(BeNumerically(">", call.Token()))
		}
		Figure("sqlite", "in place, T %v: commands were without a run for %s; an HTTP endpoint's next start came %v "+
			"after the end of its time",
			lease, history.Summary(history.Lengths(Load(c).Gaps(at, history.Now()))),
			again.At.Sub(before[len(before)-1].Until()).Round(time.Millisecond))
	}, SpecTimeout(ScenarioTimeout))
})

// That no key runs twice at once is judged at the end of the cluster.
var _ = Describe("A container that is killed whole beside an application", Label("sqlite"), func() {
	It("waits for what the application can have been promised, from its own start", func(ctx SpecContext) {
		const lease = 10 * time.Second
		c := NewCluster("in-place-beside", harness.Options{StoreURI: SQLiteURI(), Tasks: 2, Lease: lease, Settle: lease})
		dir, err := os.MkdirTemp("", "shardctl-app-") // the path of a socket is short
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(os.RemoveAll(dir)).To(Succeed()) })
		more := filepath.Join(dir, "beside.yaml")
		text := "groups: [{name: beside, tasks: [{name: \"{1..6}\", assign: {}}]}]\n"
		Expect(os.WriteFile(more, []byte(text), 0o600)).To(Succeed())
		start := func(name, socket string) *harness.Replica {
			fields := pod{"uid-of-" + name, filepath.Join(dir, name)}.fields()
			fields["app"] = map[string]any{"listen": "unix:" + filepath.Join(dir, socket)}
			r, err := c.StartContainer(ctx, name, fields, "--config", more)
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		apps, replicas := map[string]*harness.Replica{}, map[string]*harness.Replica{}
		for _, name := range []string{"a", "b"} {
			Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
			apps[name], err = c.StartProgram("application-"+name, "env", append([]string{
				"SHARDCTL_APP=unix:" + filepath.Join(dir, name+".sock"), "SHARDCTL_INSTANCE=" + name, "SHARDCTL_SESSION=none",
			}, append(python(), "--group", "beside")...)...)
			Expect(err).NotTo(HaveOccurred())
			replicas[name] = start(name, name+".sock")
		}
		mine := func(instance string) (keys []string) {
			for key, run := range Load(c).Owners() {
				if run.Instance == instance && strings.HasPrefix(key, "beside/") {
					keys = append(keys, key)
				}
			}
			return keys
		}
		for name := range apps {
			Eventually(mine).WithArguments(name).Should(HaveLen(3))
		}

		keys := mine("a")
		// It disobeys, and hears of no other session: it runs for as long as it may.
		Expect(apps["a"].GuardProc().Signal(syscall.SIGUSR1)).To(Succeed())
		at := dieWhole(ctx, replicas["a"])
		started := history.Now()
		start("a", "other.sock")
		Eventually(c.CheckTaken).WithArguments(keys, at).Should(Succeed())
		last := time.Duration(0)
		for _, run := range Load(c).Started(at, history.Now()) {
			if slices.Contains(keys, run.Key) {
				last = max(last, run.Start.Sub(started))
			}
		}
		ExpectWithin(c, lease, started, started.Add(last), "no application is promised a lease: the last key")
		Figure("sqlite", "a container killed whole beside an application and started again in place, T %v: the last of "+
			"its keys runs again %v after the start", lease, last.Round(time.Millisecond))
	}, SpecTimeout(ScenarioTimeout))
})
