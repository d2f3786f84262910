//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// newManual is a cluster as the manual shows it.
func newManual(name, body string, changes ...object) *own {
	GinkgoHelper()
	o := newOwn("manual-"+name, body)
	o.header["cluster"] = "default"
	for _, change := range changes {
		maps.Copy(o.header, change)
	}
	return o
}

// kill ends replicas with kill -9, guard and worker.
func kill(replicas ...*harness.Replica) {
	GinkgoHelper()
	for _, r := range replicas {
		Expect(r.Kill(harness.Both, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
	}
}

// hanging makes a program whose file does not answer who opens it, as on a dead file server, until answer is called.
func hanging(path string) (answer func()) {
	GinkgoHelper()
	Expect(os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700)).To(Succeed())
	f, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = f.Close() })
	Expect(unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)).Error().NotTo(HaveOccurred())
	return func() { Expect(f.Close()).To(Succeed()) }
}

// forget deletes documents from a SQLite file, as somebody may by mistake.
func forget(ctx context.Context, file, from string, args ...any) {
	GinkgoHelper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = db.Close() }()
	done, err := db.ExecContext(ctx, "DELETE FROM "+from, args...)
	Expect(err).NotTo(HaveOccurred())
	Expect(done.RowsAffected()).NotTo(BeZero())
}

// What the manual shows of a bad night is what the commands print on one.
var _ = Describe("The manual", Label("sqlite"), func() {
	It("shows tasks that have no owner, that end again and again, and that do not start", func(ctx SpecContext) {
		o := newManual("unassigned", `
groups:
  - name: topics
    cap: 2
    tasks: [{name: "topic-{1..5}", exec: {command: [sleep, "1000"]}}]
  - name: training
    instances: {selector: {pool: gpu}}
    tasks: [{name: model, exec: {command: [sleep, "1000"]}}]
  - name: reports
    tasks: [{name: sales, exec: {command: [sleep, "1000"]}}]
  - name: imports
    tasks:
      - name: orders
        backoff: {initial: 100ms, max: 5m}
        exec: {command: [sh, -c, "echo no such topic; exit 3"]}
  - name: exports
    cap: 2
    tasks: [{name: "export-{1..3}", exec: {command: [sleep, "1000"]}}]
  - name: scans
    tasks: [{name: daily, exec: {command: ["$(DIR)/scan"]}}]
`)
		answer := hanging(filepath.Join(o.dir, "scan"))
		a, b := o.start(ctx, "web-1"), o.start(ctx, "web-2")
		EventuallyReady(ctx, a)
		eventuallyState(ctx, a, "reports/sales", "running")
		done(ctx, a, "pin", "reports/sales", "web-9", "--strict", "--reason", "near its data")
		for _, name := range []string{"no-capacity", "no-headroom", "no-instance", "pinned-away", "crash-loop"} {
			By("showing " + name)
			ExpectShown(ctx, name, a)
		}
		owner := a // which alone knows why it does not start
		if eventuallyState(ctx, a, "scans/daily", "starting").Instance == b.Name {
			owner = b
		}
		ExpectShown(ctx, "start-stuck", owner)
		answer()
		eventuallyState(ctx, a, "scans/daily", "running")
		eventuallyNoProblem(ctx, owner, "StartStuck")
	}, SpecTimeout(ScenarioTimeout))

	It("shows lists that differ, two replicas of one name, a file that is refused, and a setting that waits",
		func(ctx SpecContext) {
			o := newManual("lists", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`)
			a, b := o.start(ctx, "web-1"), o.start(ctx, "web-2")
			EventuallyReady(ctx, a)
			EventuallyReady(ctx, b)
			good := o.body
			o.body = strings.Replace(good, "{1..4}", "{1..5}", 1)
			o.rewrite(b)
			ExpectShown(ctx, "config-differs", a)
			o.body = strings.Replace(good, "tasks:", "colour: red\n    tasks:", 1)
			o.rewrite(b)
			ExpectShown(ctx, "config-invalid", b)
			ExpectShown(ctx, "config-invalid", a)
			o.body = good
			o.rewrite(b, object{"zone": "eu-2"})
			ExpectShown(ctx, "restart-required", b)
			o.rewrite(b)
			eventuallyNoProblem(ctx, a, "RestartRequired")
			o.start(ctx, "web-2")
			ExpectShown(ctx, "duplicate-instance", a)
		}, SpecTimeout(ScenarioTimeout))

	It("shows a drain, a death, and a cluster of which no replica is up", func(ctx SpecContext) {
		o := newManual("dead", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`)
		a, b := o.start(ctx, "web-1"), o.start(ctx, "web-2")
		ownedBy(ctx, a, "web-2", 2)
		ExpectShown(ctx, "drain", a)
		ownedBy(ctx, a, "web-2", 2)

		By("draining it straight on the store")
		Expect(shardctl(ctx, "drain", "web-2", "--config", a.Config)).To(
			Equal(harness.CommandResult{Stdout: "instance web-2 draining\ninstance web-2 owns nothing\n"}),
		)
		ownedBy(ctx, a, "web-1", 4)
		Expect(shardctl(ctx, "undrain", "web-2", "--config", a.Config).Code).To(BeZero())
		ownedBy(ctx, a, "web-2", 2)

		By("killing one, and then the other")
		kill(b)
		ExpectShown(ctx, "died", a)
		kill(a)
		ExpectShown(ctx, "none-up", a)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("shows a store that is unreachable", func(ctx SpecContext) {
		s := sqliteOutage()
		o := newManual("store", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`, object{"store": object{"uri": s.uri}})
		a := o.start(ctx, "web-1")
		ownedBy(ctx, a, "web-1", 4)
		back := s.freeze(ctx)
		defer func() { back(ctx) }()
		ExpectShown(ctx, "store-unreachable", a)
	}, SpecTimeout(ScenarioTimeout))

	It("shows an endpoint that does not acknowledge its stop", func(ctx SpecContext) {
		e := newEndpoint()
		o := newManual("stuck", fmt.Sprintf(`
groups:
  - name: topics
    tasks:
      - name: topic-1
        stop: {timeout: 1s}
        http: {url: "%s/topic-1"}
`, e.URL), object{"lease": object{"duration": "60s"}})
		a := o.start(ctx, "web-1")
		eventuallyState(ctx, a, "topics/topic-1", "running")
		other := o.start(ctx, "web-2") // a single task stays where it is
		e.answering(func(c call) int {
			if c.Event() == "stop" {
				return http.StatusServiceUnavailable
			}
			return http.StatusNoContent
		})
		done(ctx, a, "pause", "topics/topic-1")
		ExpectShown(ctx, "stop-stuck", a)
		ExpectShown(ctx, "stop-stuck", other)
		e.answering(nil)
		eventuallyState(ctx, a, "topics/topic-1", "paused")
		eventuallyNoProblem(ctx, a, "StopStuck")
		eventuallyNoProblem(ctx, other, "StopStuck")
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("shows what is answered without a token, and how a group is renamed", func(ctx SpecContext) {
		o := newManual("rename", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..2}", exec: {command: [sleep, "1000"]}}]
`)
		const token = "a-token-of-ann-and-no-other"
		tokens := filepath.Join(o.dir, "tokens")
		Expect(os.WriteFile(tokens, []byte("ann "+token+"\n"), 0o600)).To(Succeed())
		withTokens := func(server, admin string) (string, error) {
			return o.text("web-1", server, admin, object{"admin": object{"listen": admin, "tokensFile": tokens}}), nil
		}
		a, err := o.StartWith(ctx, "web-1", withTokens)
		Expect(err).NotTo(HaveOccurred())
		eventuallyState(ctx, a, "topics/topic-1", "running")
		ExpectShown(ctx, "no-token", a)
		GinkgoT().Setenv("SHARDCTL_ADMIN_TOKEN", token)
		was := eventuallyState(ctx, a, "topics/topic-2", "running").FencingToken

		ExpectShown(ctx, "rename-pause", a)
		for _, key := range []string{"topics/topic-1", "topics/topic-2"} {
			eventuallyState(ctx, a, key, "paused")
		}
		Eventually(a.TaskProcs).Should(BeEmpty())
		o.body = strings.Replace(o.body, "name: topics", "name: streams", 1)
		text, err := withTokens(a.Client.Server, a.Client.Admin)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(a.Config, []byte(text), 0o600)).To(Succeed())
		renamed := eventuallyState(ctx, a, "streams/topic-2", "running")
		Expect(renamed.FencingToken).To(
			BeNumerically(">", was), "who knows the task by its name may go on by the tokens",
		)
		ExpectShown(ctx, "rename-resume", a)
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("has backups restored so that no token is given twice", func(ctx SpecContext) {
		o := newManual("restore", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`)
		file := strings.TrimPrefix(o.header["store"].(object)["uri"].(string), "sqlite:")
		tokens := func(r *harness.Replica) (largest int64) {
			GinkgoHelper()
			all, err := r.Client.Tasks(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, t := range all {
				largest = max(largest, t.FencingToken)
			}
			return largest
		}
		for _, name := range []string{"web-1", "web-2"} {
			o.start(ctx, name)
		}
		ownedBy(ctx, o.Live()[0], "web-2", 2)
		Expect(o.Scale(ctx, 0)).To(Succeed(), "the last one that closes the file leaves no -wal")
		backup, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())

		By("going on after the backup: tokens rise")
		a := o.start(ctx, "web-1")
		ownedBy(ctx, a, "web-1", 4)
		for range 3 {
			was := tokens(a)
			done(ctx, a, "restart", "topics/*")
			Eventually(func() int64 { return tokens(a) }).Should(BeNumerically(">", was))
		}
		ownedBy(ctx, a, "web-1", 4)
		largest := tokens(a)
		Expect(o.Scale(ctx, 0)).To(Succeed())

		By("restoring it")
		for _, more := range []string{"-wal", "-shm"} {
			Expect(os.RemoveAll(file + more)).To(Succeed())
		}
		Expect(os.WriteFile(file, backup, 0o600)).To(Succeed())
		time.Sleep(Lease) // as the manual says
		b := o.start(ctx, "web-1")
		ownedBy(ctx, b, "web-1", 4)
		restored, err := b.Client.Tasks(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, t := range restored {
			Expect(t.FencingToken).To(BeNumerically(">", largest), "%s after the backup was restored", t.Key)
		}
		ExpectShown(ctx, "tokens", b)

		By("deleting the session of a replica that runs, as a restore does")
		forget(ctx, file, `"default_sessions"`)
		ExpectShown(ctx, "store-forgot", b)
		ownedBy(ctx, b, "web-1", 4)
	}, SpecTimeout(ScenarioTimeout))
})

var _ = Describe("The manual on MongoDB", Label("mongodb", Nightly), func() {
	It("shows a store that answers slowly, and a standalone server", func(ctx SpecContext) {
		rs := testmongo.New(GinkgoTB(), testmongo.Options{Standalone: true})
		o := newManual("slow", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`, object{"lease": object{"duration": "10s"}, "store": object{"uri": testmongo.WithDatabase(rs.URI(), "manual")}})
		a := o.start(ctx, "web-1")
		ownedBy(ctx, a, "web-1", 4)
		ExpectShown(ctx, "store-standalone", a)
		slow := []string{"insert", "update"}
		Expect(rs.FailCommand(ctx, 1<<20, bson.M{
			"failCommands": slow, "blockConnection": true, "blockTimeMS": 800,
		})).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(rs.EndFailPoints(ctx)).To(Succeed()) })
		ExpectShown(ctx, "store-slow", a)
	}, SpecTimeout(ScenarioTimeout))

	It("shows a replica set with an arbiter", func(ctx SpecContext) {
		rs := testmongo.New(GinkgoTB(), testmongo.Options{Nodes: 2, Arbiters: 1})
		o := newManual("arbiter", `
groups:
  - name: topics
    tasks: [{name: "topic-{1..4}", exec: {command: [sleep, "1000"]}}]
`, object{"lease": object{"duration": "10s"}, "store": object{"uri": testmongo.WithDatabase(rs.URI(), "manual")}})
		a := o.start(ctx, "web-1")
		ownedBy(ctx, a, "web-1", 4)
		ExpectShown(ctx, "store-arbiter", a)
	}, SpecTimeout(ScenarioTimeout))
})
