//go:build linux

package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("The command line", Label("sqlite"), Ordered, func() {
	var (
		o      *own
		a, b   *harness.Replica
		server string
	)

	BeforeAll(func(ctx SpecContext) {
		o = newOwn("cli", `
groups:
  - name: g
    cap: 10
    tasks:
      - {name: "t{1..4}", labels: {team: core}, exec: {command: [sleep, "1000"]}}
      - {name: cron, schedule: "@yearly", exec: {command: ["true"]}}
  - name: jobs
    tasks:
      - {name: job, restart: never, exec: {command: ["true"]}}
      - {name: endless, restart: never, exec: {command: [sleep, "1000"]}}
`)
		a, b = o.start(ctx, "a"), o.start(ctx, "b")
		server = a.Client.AdminURL()
		for _, r := range o.Live() {
			EventuallyReady(ctx, r)
		}
		Eventually(func() (map[string]int, error) { return owned(ctx, a) }).Should(
			And(HaveLen(2), ContainElement(BeNumerically(">=", 2))),
		)
	})

	It("waits", func(ctx SpecContext) {
		for _, args := range [][]string{
			{"--for=balanced"},
			{"--for=balanced", "-g", "g"},
			{"--for=running"},
			{"--for=running", "g/t1"},
			{"--for=running", "t*", "-g", "g"},
			{"--for=done", "jobs/job"},
		} {
			got := shardctl(ctx, append([]string{"wait", "--server", server, "--timeout", "30s"}, args...)...)
			Expect(got).To(Equal(harness.CommandResult{}), "%v", args)
		}
		for _, args := range [][]string{{
			"--for=done", "-g", "jobs",
		}, {"--for=done", "g/t1"}, {"--for=running", "g/none"}, {"--for=running", "-g", "none"}} {
			got := shardctl(ctx, append([]string{"wait", "--server", server, "--timeout", "0"}, args...)...)
			Expect(got.Code).To(Equal(1), "%v: %s", args, got.Stderr)
			Expect(got.Stdout).To(BeEmpty())
			Expect(got.Stderr).To(HavePrefix("error: not "))
			Expect(strings.Count(got.Stderr, "\n")).To(Equal(1))
		}
	}, SpecTimeout(ScenarioTimeout))

	It("gets lists in each format", func(ctx SpecContext) {
		get := func(args ...string) string {
			GinkgoHelper()
			got := shardctl(ctx, append([]string{"get", "--server", server}, args...)...)
			Expect(got.Code).To(BeZero(), "%v: %s", args, got.Stderr)
			return got.Stdout
		}
		Expect(strings.Fields(get("tasks", "-o", "name"))).To(
			Equal([]string{"g/cron", "g/t1", "g/t2", "g/t3", "g/t4", "jobs/endless", "jobs/job"}),
		)
		Expect(strings.Fields(get("tasks", "-o", "name", "-l", "team=core"))).To(HaveLen(4))
		Expect(strings.Fields(get("tasks", "-o", "name", "-g", "jobs"))).To(Equal([]string{"jobs/endless", "jobs/job"}))
		Expect(strings.Fields(get("tasks", "g/t[12]", "-o", "name"))).To(Equal([]string{"g/t1", "g/t2"}))
		Expect(strings.Fields(get("instances", "-o", "name"))).To(Equal([]string{"a", "b"}))
		Expect(strings.Fields(get("groups", "-o", "name"))).To(Equal([]string{"g", "jobs"}))
		Expect(strings.Fields(get("locks", "-o", "name"))).To(HaveLen(7))
		Expect(get("tasks", "--no-headers")).NotTo(ContainSubstring("STATE"))
		Expect(get("tasks")).To(MatchRegexp(`(?m)^g/t1 +running +[ab] `))
		Expect(get("tasks", "-o", "wide")).To(MatchRegexp(`(?m)^g/t1 .*team=core`))
		Expect(get("events")).To(ContainSubstring("Created"))

		var list struct {
			Items []struct {
				Key   string `json:"key"   yaml:"key"`
				State string `json:"state" yaml:"state"`
			} `json:"items" yaml:"items"`
		}
		Expect(json.Unmarshal([]byte(get("tasks", "-o", "json")), &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(7))
		list.Items = nil
		Expect(yaml.Unmarshal([]byte(get("tasks", "-o", "yaml")), &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(7))
		Expect(list.Items[0].State).To(Equal("waiting"))

		none := shardctl(ctx, "get", "--server", server, "tasks", "g/none")
		Expect(none.Code).To(Equal(1))
		Expect(none.Stderr).To(ContainSubstring("g/none"))
	}, SpecTimeout(ScenarioTimeout))

	It("shows the status", func(ctx SpecContext) {
		got := shardctl(ctx, "status", "--server", server)
		Expect(got.Code).To(BeZero(), got.Stderr)
		Expect(got.Stdout).To(And(ContainSubstring("own"), MatchRegexp(`(?m)^ *g +`), MatchRegexp(`(?m)^ *b +live`)))
		Expect(shardctl(ctx, "healthcheck", "--server", server)).To(Equal(harness.CommandResult{}))
	}, SpecTimeout(ScenarioTimeout))

	It("reads the store itself when no replica is up", func(ctx SpecContext) {
		Expect(a.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, a)).To(BeZero())
		Eventually(func() (map[string]int, error) { return owned(ctx, b) }).Should(Equal(map[string]int{"b": 6}))
		Expect(b.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, b)).To(BeZero())

		away := shardctl(ctx, "get", "tasks", "--server", server)
		Expect(away.Code).To(Equal(1))
		Expect(away.Stderr).To(ContainSubstring("read the store with --config"))

		tasks := shardctl(ctx, "get", "tasks", "--config", a.Config, "-o", "json")
		Expect(tasks.Code).To(BeZero(), tasks.Stderr)
		var list struct {
			Items []harness.Task `json:"items"`
		}
		Expect(json.Unmarshal([]byte(tasks.Stdout), &list)).To(Succeed())
		states := map[string]int{}
		for _, t := range list.Items {
			states[t.State]++
		}
		Expect(states).To(Equal(map[string]int{"done": 1, "unassigned": 6}), tasks.Stdout)
		Expect(shardctl(ctx, "get", "instances", "--config", a.Config, "-o", "name").Stdout).To(BeEmpty())
		locks := shardctl(ctx, "get", "locks", "--config", a.Config, "-o", "name")
		Expect(strings.Fields(locks.Stdout)).To(HaveLen(7), locks.Stderr)
		status := shardctl(ctx, "status", "--config", a.Config)
		Expect(status.Code).To(BeZero(), status.Stderr)
		Expect(status.Stdout).To(ContainSubstring("jobs"))

		By("naming a store that is not there: it is not made")
		o.header["store"] = map[string]any{"uri": "sqlite:" + o.dir + "/none.db"}
		o.rewrite(a)
		missing := shardctl(ctx, "get", "tasks", "--config", a.Config)
		Expect(missing.Code).To(Equal(1), missing.Stdout)
		Expect(missing.Stderr).To(HavePrefix("error: SQLite file "))
		Expect(missing.Stderr).To(
			HaveSuffix("no replica has made this store yet: stat " + o.dir + "/none.db: no such file or directory\n"),
		)
		Expect(filepath.Join(o.dir, "none.db")).NotTo(BeAnExistingFile())
	}, SpecTimeout(ScenarioTimeout))
})
