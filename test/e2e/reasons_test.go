//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// What `shardctl describe` says must be what happened.
var _ = Describe("The reason that describe gives", Label("sqlite"), func() {
	const sleepers = `
groups:
  - name: g
    tasks: [{name: "t{1..4}", exec: {command: [sleep, "1000"]}}]
`
	It("is the death of the owner after a crash", func(ctx SpecContext) {
		o := newOwn("reason-crash", sleepers)
		a, b := o.start(ctx, "a"), o.start(ctx, "b")
		key := ownedBy(ctx, a, "b", 2)
		Expect(b.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		eventuallyDescribed(ctx, a, key, And(
			MatchRegexp(`Instance:\s+a for`), MatchRegexp(`Reason:\s+Orphaned: b died: no heartbeat for 2 s`),
			MatchRegexp(`Moved\s+Orphaned\s+g/t\d\s+b\s+a\s+b died: no heartbeat for 2 s`),
		))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is who drained the owner, and why", func(ctx SpecContext) {
		o := newOwn("reason-drain", sleepers)
		a, _ := o.start(ctx, "a"), o.start(ctx, "b")
		key := ownedBy(ctx, a, "b", 2)
		ask(ctx, a, "/api/v1/instances/b/drain", object{"by": "alice", "reason": "new kernel"})
		eventuallyDescribed(ctx, a, key, MatchRegexp(`Reason:\s+Drain: b is drained by alice \(new kernel\)`))
		Eventually(func() string { return printed(ctx, a, "describe", "instance", "b") }).WithContext(ctx).Should(
			MatchRegexp(`State:\s+draining: drained by alice \(new kernel\)`),
		)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is who pinned the task, and where", func(ctx SpecContext) {
		// One of five: b has three with it, so that no other task moves to even them out.
		o := newOwn("reason-pin", strings.Replace(sleepers, "{1..4}", "{1..5}", 1))
		a := o.start(ctx, "a")
		ownedBy(ctx, a, "a", 5)
		o.start(ctx, "b")
		key := ownedBy(ctx, a, "a", 3)
		ask(ctx, a, "/api/v1/tasks/"+key+"/pin", object{"instance": "b", "by": "alice", "reason": "near its data"})
		eventuallyDescribed(ctx, a, key, And(
			MatchRegexp(`Instance:\s+b for`), MatchRegexp(`Reason:\s+Pin: pinned to b by alice \(near its data\)`),
			MatchRegexp(`Pinned to:\s+b`),
		))
		ask(ctx, a, "/api/v1/tasks/"+key+"/pin", object{"instance": "zone=x", "strict": true, "by": "alice"})
		eventuallyDescribed(ctx, a, key,
			MatchRegexp(`Why:\s+PinUnavailable: pinned strictly to zone=x by alice: no live replica matches`))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is the newer revision after a rolling update", func(ctx SpecContext) {
		o := newOwn("reason-roll", sleepers)
		old := o.start(ctx, "a", object{"rollout": "one"})
		key := ownedBy(ctx, old, "a", 4)
		next := o.start(ctx, "b", object{"rollout": "two"})
		Eventually(func() (string, error) { return sessionOf(ctx, old, "b") }).ShouldNot(BeEmpty())
		Expect(old.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		eventuallyDescribed(ctx, next, key,
			MatchRegexp(`Reason:\s+Upgrade: a is stopping, and rolled to b, which has the newer revision two`))
		Eventually(func() string {
			return printed(ctx, next, "get", "instances", "-o", "wide", "--no-headers")
		}).WithContext(ctx).Should(MatchRegexp(`a\s+left`))
		Expect(printed(ctx, next, "get", "instances", "-o", "name")).To(Equal("b\n"), "what left is hidden")
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is the arithmetic where there is no capacity", func(ctx SpecContext) {
		o := newOwn("reason-capacity", strings.Replace(sleepers, "name: g\n", "name: g\n    cap: 3\n", 1))
		a := o.start(ctx, "a")
		var left string
		Eventually(func() (string, error) {
			tasks, err := a.Client.Tasks(ctx)
			for _, t := range tasks {
				if t.State == "unassigned" && t.Reason == "NoCapacity" {
					left = t.Key
				}
			}
			return left, err
		}).WithContext(ctx).ShouldNot(BeEmpty())
		eventuallyDescribed(ctx, a, left, MatchRegexp(`Why:\s+NoCapacity: no capacity: 1 replica × cap 3 = 3, 4 tasks`))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is the task list after a task was removed from it", func(ctx SpecContext) {
		o := newOwn("reason-removed", sleepers)
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/t4", "running")
		o.body = strings.Replace(sleepers, "{1..4}", "{1..3}", 1)
		o.rewrite(a)
		eventuallyDescribed(ctx, a, "g/t4", And(
			MatchRegexp(`State:\s+not declared`),
			MatchRegexp(`Reason:\s+Removed: no longer in the task list \(revision 0\)`),
			MatchRegexp(`Released\s+Removed\s+g/t4\s+a`),
		))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("is found for a job that failed, with its output, in two commands", func(ctx SpecContext) {
		o := newOwn("reason-runs", `
groups:
  - name: jobs
    tasks:
      - {name: report, every: 1s, exec: {command: [sh, -c, "echo no such table >&2; exit 3"]}}
      - {name: import, restart: never, exec: {command: [sh, -c, "echo done"]}}
`)
		a := o.start(ctx, "a")
		Eventually(func() string {
			return printed(ctx, a, "get", "runs", "jobs/report", "--no-headers")
		}).WithContext(ctx).Should(MatchRegexp(`Failed\s+3\s+1\s+a\s+exit status 3`))
		eventuallyDescribed(ctx, a, "jobs/report", And(
			ContainSubstring("no such table"), MatchRegexp(`RunFailed\s+Failed\s+jobs/report`),
		))
		Eventually(func() string {
			return printed(ctx, a, "get", "runs", "jobs/import", "--no-headers")
		}).WithContext(ctx).Should(MatchRegexp(`Succeeded\s+0\s+1\s+a`))
	}, SpecTimeout(ScenarioTimeout))
})

type object = map[string]any

// printed is what a command says of the cluster, asked of one replica.
func printed(ctx context.Context, r *harness.Replica, args ...string) string {
	GinkgoHelper()
	return shardctl(ctx, append(args, "--server", r.Client.AdminURL())...).Stdout
}

// eventuallyDescribed waits until describe says of a task what matches.
func eventuallyDescribed(ctx context.Context, r *harness.Replica, key string, match OmegaMatcher) {
	GinkgoHelper()
	Eventually(func() string { return printed(ctx, r, "describe", "task", key) }).WithContext(ctx).Should(match)
}

// ownedBy waits until all tasks run and so many of them on the instance, its share: nothing is about to move then. It
// returns one of these.
func ownedBy(ctx context.Context, r *harness.Replica, instance string, share int) (key string) {
	GinkgoHelper()
	Eventually(func() (int, error) {
		tasks, err := r.Client.Tasks(ctx)
		owned := 0
		for _, t := range tasks {
			if t.State != "running" {
				return 0, err
			}
			if t.Instance == instance {
				key = t.Key
				owned++
			}
		}
		return owned, err
	}).WithContext(ctx).Should(Equal(share))
	return key
}

// ask posts a change.
func ask(ctx context.Context, r *harness.Replica, path string, body object) {
	GinkgoHelper()
	text, err := json.Marshal(body)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Client.AdminURL()+path, bytes.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	Expect(resp.StatusCode).To(BeNumerically("<", 300), path)
}
