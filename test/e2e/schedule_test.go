//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
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

var _ = Describe("Scheduled tasks", Label("sqlite"), func() {
	It("fire once at each tick, also while a replica is killed", func(ctx SpecContext) {
		o := newOwn("ticks", `
groups:
  - name: g
    tasks:
      - name: tick-{1..6}
        every: 1s
        exec: {command: [sh, -c, 'echo "$SHARDCTL_TASK $SHARDCTL_SCHEDULED_AT $SHARDCTL_FENCING_TOKEN $SHARDCTL_INSTANCE" >> $(DIR)/ticks']}
`)
		for _, name := range []string{"a", "b", "c"} {
			o.start(ctx, name)
		}
		replicas := o.Live()
		Eventually(func() (map[string]int, error) { return owned(ctx, replicas[0]) }).Should(
			Equal(map[string]int{"a": 2, "b": 2, "c": 2}),
		)
		Eventually(func() int { return len(o.lines("ticks")) }).Should(BeNumerically(">=", 18))
		dying := replicas[2]
		var orphans []string
		tasks, err := dying.Client.Tasks(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, t := range tasks {
			if t.Instance == dying.Name {
				orphans = append(orphans, strings.TrimPrefix(t.Key, "g/"))
			}
		}
		Expect(orphans).To(HaveLen(2))
		began := history.Now()
		Expect(dying.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		Eventually(func() (map[string]int, error) { return owned(ctx, replicas[0]) }).Should(
			Equal(map[string]int{"a": 3, "b": 3}),
		)
		before := len(o.lines("ticks"))
		Eventually(func() int { return len(o.lines("ticks")) }).Should(BeNumerically(">=", before+18))
		Expect(o.Scale(ctx, 0)).To(Succeed())

		ticks := ticksOf(o.lines("ticks"))
		Expect(slices.Sorted(maps.Keys(ticks))).To(
			Equal([]string{"tick-1", "tick-2", "tick-3", "tick-4", "tick-5", "tick-6"}),
		)
		for name, runs := range ticks {
			missing := 0
			for i := 1; i < len(runs); i++ {
				gap := runs[i].at.Sub(runs[i-1].at)
				Expect(gap).To(BeNumerically(">", 0), "%s fired twice at one tick: %v", name, runs)
				Expect(gap%time.Second).To(BeZero(), "%s: fail-over must not shift ticks: %v", name, runs)
				Expect(
					len(runs[i-1].token) <= len(runs[i].token) && runs[i-1].token < runs[i].token,
				).To(BeTrue(), "%s: tokens %v", name, runs)
				missing += int(gap/time.Second) - 1
			}
			if !slices.Contains(orphans, name) {
				// A tick that comes while the command of the one before has not ended is left out.
				most := int((Stall(o.Cluster, began, history.Now()) + time.Second/2) / time.Second)
				Expect(missing).To(BeNumerically("<=", most), "%s, whose owner was not killed, missed ticks: %v", name, runs)
				continue
			}
			// T until its owner counts as dead; the newest of what was missed meanwhile is caught up.
			most := Lease + 4*time.Second + Stall(o.Cluster, began, history.Now())
			Expect(missing).To(BeNumerically("<=", int(most/time.Second)), "%s: %v", name, runs)
			Figure("sqlite", "every: 1s, owner killed (T = %v): %d ticks missed", Lease, missing)
		}
	}, SpecTimeout(ScenarioTimeout))

	It("wait for their next tick, and report when that is", func(ctx SpecContext) {
		o := newOwn("cron", `
groups:
  - name: g
    tasks:
      - {name: minute, schedule: "* * * * *", exec: {command: ["true"]}}
      - {name: named, schedule: "30 4 * jan-mar mon,7", timeZone: America/New_York, exec: {command: ["true"]}}
      - {name: daily, schedule: "@daily", exec: {command: ["true"]}}
      - {name: hourly, every: 1h, exec: {command: ["true"]}}
`)
		a := o.start(ctx, "a")
		now := time.Now()
		for _, name := range []string{"minute", "named", "daily", "hourly"} {
			eventuallyState(ctx, a, "g/"+name, "waiting")
		}
		next := func(name string) time.Time {
			GinkgoHelper()
			var at time.Time
			Eventually(func() error { // the state is reported first
				body, err := a.Client.Read(ctx, "/api/v1/tasks/g/"+name)
				if err != nil {
					return err
				}
				var t struct {
					NextRunAt *time.Time `json:"nextRunAt"`
				}
				if err := json.Unmarshal([]byte(body), &t); err != nil {
					return err
				}
				if t.NextRunAt == nil {
					return fmt.Errorf("no nextRunAt: %s", body)
				}
				at = *t.NextRunAt
				return nil
			}).Should(Succeed())
			return at
		}
		Expect(next("minute")).To(BeTemporally("~", now.Truncate(time.Minute).Add(time.Minute), time.Minute))
		Expect(next("minute").Second()).To(BeZero())
		newYork, err := time.LoadLocation("America/New_York")
		Expect(err).NotTo(HaveOccurred())
		named := next("named").In(newYork)
		Expect(named.Format("15:04")).To(Equal("04:30"))
		Expect(named.Month()).To(BeElementOf(time.January, time.February, time.March))
		Expect(named.Weekday()).To(BeElementOf(time.Monday, time.Sunday))
		Expect(next("daily")).To(BeTemporally("==", now.UTC().Truncate(24*time.Hour).Add(24*time.Hour)))
		Expect(next("hourly")).To(BeTemporally("~", now.Add(30*time.Minute), 31*time.Minute))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("do as overlap, timeout and retry say", func(ctx SpecContext) {
		o := newOwn("overlap", `
groups:
  - name: g
    defaults: {every: 1s}
    tasks:
      - {name: skip, exec: {command: [sh, -c, 'echo begin >> $(DIR)/skip; sleep 2.4; echo end >> $(DIR)/skip']}}
      - {name: replace, overlap: replace, exec: {command: [sh, -c, 'echo begin >> $(DIR)/replace; sleep 2.4; echo end >> $(DIR)/replace']}}
      - {name: slow, timeout: 300ms, exec: {command: [sh, -c, 'echo begin >> $(DIR)/slow; sleep 2.4; echo end >> $(DIR)/slow']}}
      - name: retried
        every: 1h
        retry: {attempts: 3, backoff: {initial: 50ms, max: 100ms}}
        exec: {command: ["false"]}
`)
		a := o.start(ctx, "a")
		count := func(file, word string) func() int {
			return func() int { return strings.Count(strings.Join(o.lines(file), " "), word) }
		}
		Eventually(count("skip", "end")).Should(BeNumerically(">=", 2))
		Eventually(count("replace", "begin")).Should(BeNumerically(">=", 4))
		Eventually(count("slow", "begin")).Should(BeNumerically(">=", 4))
		Expect(count("skip", "begin")()).To(BeNumerically("<=", count("skip", "end")()+1), "one run at a time")
		Expect(count("replace", "end")()).To(BeZero(), "each is ended by the next")
		Expect(count("slow", "end")()).To(BeZero(), "each takes too long")
		eventuallyTask(ctx, a, "g/slow", HaveField("LastError", ContainSubstring("longer than its timeout")))
		Expect(eventuallyProblem(ctx, a, "TaskFailing").Message).To(ContainSubstring("its last run failed"))
		for _, result := range []string{"skipped", "replaced", "timeout"} {
			value, found, err := a.Client.Metric(
				ctx, "shardctl_task_runs_total", map[string]string{"group": "g", "result": result},
			)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(BeTrue(), result)
			Expect(value).To(BeNumerically(">=", 2), result)
		}
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))
})

// owned counts the tasks of each instance, by one replica.
func owned(ctx SpecContext, r *harness.Replica) (map[string]int, error) {
	tasks, err := r.Client.Tasks(ctx)
	counts := map[string]int{}
	for _, t := range tasks {
		if t.Instance != "" {
			counts[t.Instance]++
		}
	}
	return counts, err
}

// tickRun is one line of what the ticks wrote.
type tickRun struct {
	at       time.Time
	token    string
	instance string
}

// ticksOf are the runs of each task, in order.
func ticksOf(lines []string) map[string][]tickRun {
	GinkgoHelper()
	runs := map[string][]tickRun{}
	for _, line := range lines {
		words := strings.Fields(line)
		Expect(words).To(HaveLen(4), line)
		at, err := time.Parse(time.RFC3339, words[1])
		Expect(err).NotTo(HaveOccurred())
		runs[words[0]] = append(runs[words[0]], tickRun{at: at, token: words[2], instance: words[3]})
	}
	return runs
}
