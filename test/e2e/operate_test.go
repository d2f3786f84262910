//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
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

// done runs a command that has to succeed, and returns what it prints.
func done(ctx context.Context, r *harness.Replica, args ...string) string {
	GinkgoHelper()
	got := shardctl(ctx, append(args, "--server", r.Client.AdminURL())...)
	Expect(got.Code).To(BeZero(), "%v: %s", args, got.Stderr)
	return got.Stdout
}

var _ = Describe("Draining an instance", func() {
	EachStore("One of five", func(store string, uri func() string) {
		const tasks, share = 40, 8

		It("moves its tasks, and none comes back until undrain, also when all are restarted",
			func(ctx SpecContext) {
				c := NewCluster("drain-"+store, harness.Options{StoreURI: uri(), Cap: 12, Tasks: tasks})
				NothingLost(c)
				Expect(c.Scale(ctx, 5)).To(Succeed())
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				names := []string{"r1", "r2", "r3", "r4", "r5"}
				const drained = "r1"
				asked := c.Live()[1]
				keys := KeysOf(c, c.Live()[0])
				Expect(keys).To(HaveLen(share))
				rest := map[string]int{"r2": 10, "r3": 10, "r4": 10, "r5": 10}

				By("looking beforehand at what would move")
				preview := done(ctx, asked, "drain", drained, "--dry-run")
				Expect(strings.Count(preview, " would move from r1 to r")).To(Equal(share), preview)
				Expect(owned(ctx, asked)).To(HaveKeyWithValue(drained, share), "a dry run changes nothing")

				By("draining it")
				before := history.Now()
				said := done(ctx, asked, "drain", drained, "--timeout", "60s", "--reason", "a new kernel")
				Expect(said).To(Equal("instance r1 draining\ninstance r1 owns nothing\n"))
				Eventually(c.CheckTaken).WithArguments(keys, before).Should(Succeed())
				Eventually(func() (map[string]int, error) { return owned(ctx, asked) }).Should(Equal(rest))
				after := history.Now()
				h := Load(c)
				moves := h.Moves(before, after)
				Expect(moves).To(HaveLen(share), "its own and no others")
				for _, move := range moves {
					Expect(move.From).To(Equal(drained), "%v", move)
				}
				gaps := history.Lengths(h.Gaps(before, after))
				for _, gap := range h.Gaps(before, after) {
					ExpectWithin(c, Lease, gap.Old.End, gap.New.Start, gap.New.Key+" is handed over, not taken over")
				}
				Figure(store, "drain of one of five: gaps of its tasks %s", history.Summary(gaps))

				By("seeing who asked for it on every replica")
				for _, r := range c.Live() {
					Eventually(func() (string, error) {
						return r.Client.Read(
							ctx, "/api/v1/instances/"+drained,
						)
					}).Should(And(
						ContainSubstring(`"state":"draining"`), ContainSubstring(`"kind":"drain"`),
						ContainSubstring(`"reason":"a new kernel"`),
					), r.Name)
				}

				By("restarting each of them, one after the other")
				rolling := history.Now()
				for _, r := range c.Live() {
					Expect(r.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
					Expect(ExitCode(ctx, r)).To(BeZero())
					again, err := c.Start(ctx, r.Name)
					Expect(err).NotTo(HaveOccurred())
					EventuallyReady(ctx, again)
					Eventually(func() (map[string]int, error) { return owned(ctx, again) }).Should(
						Equal(rest), "with %s again", r.Name,
					)
				}
				Expect(startedOn(c, drained, rolling)).To(BeEmpty(), "tasks that came back")

				By("restarting all of them at once")
				Expect(c.Scale(ctx, 0)).To(Succeed())
				restarted := history.Now()
				for _, name := range names {
					Expect(c.Start(ctx, name)).Error().NotTo(HaveOccurred())
				}
				live := c.Live()
				for _, r := range live {
					EventuallyReady(ctx, r)
				}
				Eventually(func() (map[string]int, error) { return owned(ctx, live[1]) }).Should(Equal(rest))
				Expect(startedOn(c, drained, restarted)).To(BeEmpty(), "tasks that came back")

				By("taking it back")
				Expect(done(ctx, live[0], "undrain", drained)).To(Equal("instance r1 undrained\n"))
				Eventually(c.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
				Expect(startedOn(c, drained, restarted)).To(HaveLen(share))
			}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"))
})

// startedOn are the runs that an instance has started since.
func startedOn(c *harness.Cluster, instance string, since history.Instant) []history.Run {
	GinkgoHelper()
	runs := Load(c).Started(since, history.Now())
	return slices.DeleteFunc(runs, func(r history.Run) bool { return r.Instance != instance })
}

var _ = Describe("What operators ask for", Label("sqlite"), func() {
	It("pauses a group with the tasks that it will have", func(ctx SpecContext) {
		const body = `
groups:
  - name: g
    tasks:
      - {name: "t{1..2}", exec: {command: [sh, -c, 'echo "$SHARDCTL_TASK" >> $(DIR)/runs; exec sleep 1000']}}
`
		o := newOwn("pause", body)
		a, b := o.start(ctx, "a"), o.start(ctx, "b")
		eventuallyState(ctx, a, "g/t1", "running")
		eventuallyState(ctx, a, "g/t2", "running")
		Expect(done(ctx, a, "pause", "-g", "g", "--reason", "maintenance")).To(Equal("group g paused\n"))
		for _, key := range []string{"g/t1", "g/t2"} {
			eventuallyTask(
				ctx, b, key, And(HaveField("State", "paused"), HaveField("Message", ContainSubstring("maintenance"))),
			)
		}
		Eventually(func() int { return len(a.TaskProcs()) + len(b.TaskProcs()) }).Should(BeZero())
		before := o.lines("runs")

		By("declaring one more, and starting a replica that has not heard of the pause")
		o.body = strings.Replace(body, "{1..2}", "{1..3}", 1)
		o.rewrite(a)
		o.rewrite(b)
		c := o.start(ctx, "c")
		EventuallyReady(ctx, c)
		for _, r := range []*harness.Replica{a, b, c} {
			eventuallyState(ctx, r, "g/t3", "paused")
		}
		refused := shardctl(ctx, "resume", "g/t3", "--server", c.Client.AdminURL())
		Expect(refused.Code).To(Equal(1))
		Expect(refused.Stderr).To(ContainSubstring("resume the group"))
		Expect(o.lines("runs")).To(Equal(before), "nothing was started")

		By("resuming it")
		Expect(done(ctx, c, "resume", "-g", "g")).To(Equal("group g resumed\n"))
		for _, key := range []string{"g/t1", "g/t2", "g/t3"} {
			eventuallyState(ctx, c, key, "running")
		}
		// Lists and members have just changed: a task may move once more.
		Eventually(func() int { return len(o.lines("runs")) }).Should(BeNumerically(">=", len(before)+3))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is done once, and where it was asked for", func(ctx SpecContext) {
		o := newOwn("once", `
groups:
  - name: g
    tasks:
      - {name: "s{1..3}", exec: {command: [sh, -c, 'echo "$SHARDCTL_INSTANCE $SHARDCTL_FENCING_TOKEN" >> $(DIR)/$SHARDCTL_TASK; exec sleep 1000']}}
  - name: jobs
    tasks:
      - {name: job, restart: never, exec: {command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN" >> $(DIR)/job']}}
      - {name: tick, schedule: "@yearly", exec: {command: [sh, -c, 'echo "$SHARDCTL_SCHEDULED_AT" >> $(DIR)/tick']}}
`)
		var replicas []*harness.Replica
		for _, name := range []string{"a", "b", "c"} {
			replicas = append(replicas, o.start(ctx, name))
		}
		a := replicas[0]
		for _, r := range replicas {
			EventuallyReady(ctx, r)
		}
		done(ctx, a, "wait", "--for=running")
		ranOn := func(name string) func() []string {
			return func() []string {
				var instances []string
				for _, line := range o.lines(name) {
					instances = append(instances, strings.Fields(line)[0])
				}
				return instances
			}
		}
		elsewhere := func(key string) string {
			GinkgoHelper()
			owner := eventuallyState(ctx, a, key, "running").Instance
			return map[string]string{"a": "b", "b": "c", "c": "a"}[owner]
		}

		By("moving a task")
		to := elsewhere("g/s1")
		Expect(done(ctx, a, "move", "g/s1", to)).To(Equal("task g/s1 asked to move\n"))
		Eventually(ranOn("s1")).Should(ContainElement(to))

		By("pinning another")
		to = elsewhere("g/s2")
		done(ctx, a, "pin", "g/s2", to, "--reason", "near its data")
		eventuallyTask(ctx, a, "g/s2", And(HaveField("State", "running"), HaveField("Instance", to)))
		Eventually(ranOn("s2")).Should(ContainElement(to))
		for _, r := range replicas {
			Eventually(func() (string, error) { return r.Client.Read(ctx, "/api/v1/tasks/g/s2") }).Should(And(
				ContainSubstring(fmt.Sprintf("%q:%q", "pinnedTo", to)), ContainSubstring(`"reason":"near its data"`),
			))
		}
		done(ctx, a, "pin", "g/s2", "none", "--strict")
		eventuallyTask(ctx, a, "g/s2", And(HaveField("State", "unassigned"), HaveField("Reason", "PinUnavailable")))
		done(ctx, a, "unpin", "g/s2")
		eventuallyState(ctx, a, "g/s2", "running")

		By("restarting one, where it is")
		done(ctx, a, "wait", "--for=balanced")
		before := o.lines("s3")
		was := eventuallyState(ctx, a, "g/s3", "running")
		Expect(done(ctx, a, "restart", "g/s3")).To(Equal("task g/s3 restarted\n"))
		Eventually(func() []string { return o.lines("s3") }).Should(HaveLen(len(before) + 1))
		eventuallyTask(ctx, a, "g/s3", And(
			HaveField("State", "running"), HaveField("Instance", was.Instance),
			HaveField("FencingToken", BeNumerically(">", was.FencingToken)),
		))

		By("running a job again")
		eventuallyState(ctx, a, "jobs/job", "done")
		Expect(o.lines("job")).To(HaveLen(1))
		done(ctx, a, "rerun", "jobs/job")
		Eventually(func() []string { return o.lines("job") }).Should(HaveLen(2))
		eventuallyState(ctx, a, "jobs/job", "done")
		expectRising(o.lines("job"), 2)

		By("firing a tick, twice")
		eventuallyState(ctx, a, "jobs/tick", "waiting")
		fired := len(o.lines("tick"))
		for i := range 2 {
			done(ctx, a, "trigger", "jobs/tick")
			Eventually(func() int { return len(o.lines("tick")) }).Should(Equal(fired + i + 1))
			eventuallyState(ctx, a, "jobs/tick", "waiting")
		}

		By("refusing what cannot be")
		for args, says := range map[string]string{
			"restart jobs/job":  "nothing of it runs now",
			"rerun g/s1":        "it has not ended",
			"trigger g/s1":      "neither schedule nor every",
			"move g/s1 none":    "no live instance",
			"drain none":        "no instance",
			"pause g/none":      "no task",
			"rebalance -g none": "no group",
		} {
			got := shardctl(ctx, append(strings.Fields(args), "--server", a.Client.AdminURL())...)
			Expect(got.Code).To(Equal(1), args)
			Expect(got.Stderr).To(ContainSubstring(says), args)
		}

		By("telling of it")
		events := done(ctx, a, "get", "events", "-o", "wide")
		for _, verb := range []string{"Move", "Pin", "Unpin", "Restart", "Rerun", "Trigger"} {
			Expect(events).To(MatchRegexp(`Change +%s `, verb), verb)
		}
		Expect(events).To(ContainSubstring("near its data"))

		By("asking for it through the store, with no replica up")
		Expect(o.Scale(ctx, 0)).To(Succeed())
		before = o.lines("s1")
		paused := shardctl(ctx, "pause", "g/s1", "--config", a.Config)
		Expect(paused).To(Equal(harness.CommandResult{Stdout: "task g/s1 paused\n"}))
		d := o.start(ctx, "d")
		eventuallyState(ctx, d, "g/s3", "running")
		eventuallyState(ctx, d, "g/s1", "paused")
		Expect(o.lines("s1")).To(Equal(before))
	}, SpecTimeout(ScenarioTimeout))

	It("keeps new tasks from a cordoned instance, which keeps its own", func(ctx SpecContext) {
		o := newOwn("cordon", `
groups:
  - name: g
    tasks: [{name: "t{1..6}", exec: {command: [sleep, "1000"]}}]
`)
		a, b, c := o.start(ctx, "a"), o.start(ctx, "b"), o.start(ctx, "c")
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			Equal(map[string]int{"a": 2, "b": 2, "c": 2}),
		)
		done(ctx, a, "cordon", "c")
		for _, r := range []*harness.Replica{b, c} { // who has not read of it yet goes by the plan that it has
			Eventually(func() (string, error) { return r.Client.Read(ctx, "/api/v1/instances/c") }).Should(
				ContainSubstring(`"kind":"cordon"`),
			)
		}
		Expect(b.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, b)).To(BeZero())
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			Equal(map[string]int{"a": 4, "c": 2}),
		)
		Expect(done(ctx, c, "get", "instances")).To(MatchRegexp(`(?m)^c +live,cordoned `))
		done(ctx, c, "uncordon", "c")
		done(ctx, c, "rebalance", "-g", "g")
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			Equal(map[string]int{"a": 3, "c": 3}),
		)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("needs a token where tokens are set, and the newest ones count", func(ctx SpecContext) {
		o := newOwn("tokens", `
groups: [{name: g, tasks: [{name: t, exec: {command: [sleep, "1000"]}}]}]
`)
		tokens := o.dir + "/tokens"
		write := func(text string) {
			GinkgoHelper()
			Expect(os.WriteFile(tokens+".new", []byte(text), 0o600)).To(Succeed())
			Expect(os.Rename(tokens+".new", tokens)).To(Succeed())
		}
		const first, second = "the-first-token-of-ann", "the-second-token-of-ann"
		write("ann " + first + "\nbot the-token-of-the-bot operate\n")
		a, err := o.StartWith(ctx, "a", func(server, listen string) (string, error) {
			return o.text(
				"a", server, listen, map[string]any{"admin": map[string]any{"listen": listen, "tokensFile": tokens}},
			), nil
		})
		Expect(err).NotTo(HaveOccurred())
		eventuallyState(ctx, a, "g/t", "running")
		ask := func(token string, args ...string) harness.CommandResult {
			GinkgoHelper()
			file := o.dir + "/token"
			Expect(os.WriteFile(file, []byte(token), 0o600)).To(Succeed())
			return shardctl(ctx, append(args, "--server", a.Client.AdminURL(), "--token-file", file)...)
		}
		Expect(
			shardctl(ctx, "cordon", "a", "--server", a.Client.AdminURL()).Stderr,
		).To(ContainSubstring("--token-file"))
		Expect(ask("the-token-of-the-bot", "cordon", "a").Stderr).To(ContainSubstring("bot may operate"))
		Expect(ask("the-token-of-the-bot", "restart", "g/t").Code).To(BeZero())
		Expect(ask(first, "cordon", "a").Code).To(BeZero())
		Expect(a.Client.Read(ctx, "/api/v1/instances/a")).To(ContainSubstring(`"by":"ann"`))

		write("ann " + second + "\n")
		// Ten wrong tokens within a minute would make this address wait: these are nine.
		Eventually(func() int { return ask(second, "uncordon", "a").Code }).
			WithPolling(3 * time.Second).WithTimeout(26 * time.Second).Should(BeZero())
		Expect(ask(first, "cordon", "a").Code).To(Equal(1), "the old one has ended")
		Expect(a.Log()).To(And(
			ContainSubstring("An operator asked for a change"), Not(ContainSubstring(first)),
			Not(ContainSubstring(second)),
		))
	}, SpecTimeout(ScenarioTimeout))
})
