//go:build linux

package e2e_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testmongo"
)

// secret is a password that nothing may ever show.
const secret = "opensesame"

var _ = Describe("Bad input", Label("sqlite", "P10"), func() {
	const good = "version: 1\nstore: {uri: \"sqlite:$(DIR)/locks.db\"}\n"

	DescribeTable("in a configuration is reported with its place, by run and by validate, and ends with a code of its own",
		func(ctx SpecContext, text string, want ...string) {
			dir, err := os.MkdirTemp(Work, "bad-")
			Expect(err).NotTo(HaveOccurred())
			file := filepath.Join(dir, "a.yaml")
			if text != "" {
				Expect(os.WriteFile(file, []byte(strings.ReplaceAll(text, "$(DIR)", dir)), 0o600)).To(Succeed())
			}
			for code, got := range map[int]harness.CommandResult{
				2: shardctl(ctx, "validate", file), 78: shardctl(ctx, "run", "--config", file),
			} {
				Expect(got.Code).To(Equal(code), got.Stderr)
				Expect(got.Stdout).To(BeEmpty())
				lines := strings.Split(strings.TrimRight(got.Stderr, "\n"), "\n")
				Expect(lines).To(HaveLen(len(want)), got.Stderr)
				for i, line := range lines {
					text, more := strings.CutSuffix(file+strings.ReplaceAll(want[i], "$FILE", file), "…")
					if more { // a list that grows with each store
						Expect(line).To(HavePrefix(text + "etcd://"))
						continue
					}
					Expect(line).To(Equal(text))
				}
				Expect(got.Stderr).NotTo(ContainSubstring(secret))
			}
		},
		Entry("an unknown field", Label(Nightly), good+"colour: red\n",
			":3:1: colour: is not a field, allowed are admin, app, cluster, groups, instance, labels, lease, log, "+
				"maxTasks, metrics, pod, rebalance, revision, rollout, server, shutdown, store, version, zone"),
		Entry("a wrong type", Label(Nightly), good+"groups: [{name: a, tasks: [{name: b, exec: {command: sleep}}]}]\n",
			":3:54: groups[0].tasks[0].exec.command: is text, must be a list"),
		Entry("a doubled name", Label(Nightly),
			good+"groups: [{name: a, tasks: [{name: 'b{1,2}', exec: {command: [date]}}, {name: "+
				"b2, exec: {command: [date]}}]}]\n",
			":3:78: groups[0].tasks[1].name: task \"b2\" is named at $FILE:3:35 as well: a task stands once in a "+
				"group"),
		Entry("a negative cap", Label(Nightly), good+"groups: [{name: a, cap: -1}]\n",
			":3:25: groups[0].cap: is \"-1\", must be a whole number from 0 to 1000000000"),
		Entry("a late renewDeadline", Label(Nightly), good+"lease: {duration: 4s, renewDeadline: 3100ms}\n",
			":3:38: lease.renewDeadline: is \"3100ms\", must be more than 0s and at most 3s, three quarters of "+
				"lease.duration 4s"),
		Entry("a bad schedule", Label(Nightly),
			good+"groups: [{name: a, tasks: [{name: b, schedule: '61 * * * *', exec: {command: "+
				"[date]}}]}]\n",
			":3:48: groups[0].tasks[0].schedule: is \"61 * * * *\": end of range (61) above maximum (59): 61"),
		Entry("a bad time zone", Label(Nightly),
			good+"groups: [{name: a, tasks: [{name: b, schedule: '@daily', timeZone: "+
				"Mars/Phobos, exec: {command: [date]}}]}]\n",
			":3:68: groups[0].tasks[0].timeZone: is \"Mars/Phobos\", must be a name of the IANA database such as "+
				"Europe/Berlin, or UTC"),
		Entry("an unset variable", Label(Nightly), good+"zone: $(SHARDCTL_E2E_NOT_SET)\n",
			":3:7: zone: $(SHARDCTL_E2E_NOT_SET) is not set, set it or write a default: $(SHARDCTL_E2E_NOT_SET:-TEXT)"),
		Entry("a missing file", "",
			": cannot be read: no such file or directory"),
		Entry("a store without a host", Label(Nightly),
			"version: 1\nstore: {uri: \"mongodb://user:"+secret+"@/locks\"}\n",
			":2:14: store.uri: names no host, must be mongodb://HOST"),
		Entry("a password with a stray %", Label(Nightly),
			"version: 1\nstore: {uri: \"mongodb://user:"+secret+"%@host/locks\"}\n",
			":2:14: store.uri: has a user or password with a % that no two hexadecimal digits follow: write it as %25"),
		Entry("a store of an unknown kind", Label(Nightly),
			"version: 1\nstore: {uri: \"oracle://user:"+secret+"@host/locks\"}\n",
			":2:14: store.uri: does not begin with a known scheme, must be …"),
		Entry("several at once", "version: 1\nstore: {}\nlease: {duration: 10ms}\nzones: 3\n",
			":2:8: store.uri: is required: …",
			":3:19: lease.duration: is \"10ms\", must be from 1s to 24h",
			":4:1: zones: is not a field, did you mean zone? allowed are admin, app, cluster, groups, instance, labels, "+
				"lease, log, maxTasks, metrics, pod, rebalance, revision, rollout, server, shutdown, store, "+
				"version, zone"))

	DescribeTable("a listener's address that is taken is waited for",
		func(ctx SpecContext, field string) {
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { _ = taken.Close() }) // it is closed below
			o := newOwn("taken", "groups: [{name: a, tasks: [{name: b, exec: {command: [sleep, \"1000\"]}}]}]\n")
			address := taken.Addr().String()
			r := o.start(ctx, "r1", map[string]any{field: map[string]any{"listen": address}})
			Eventually(r.Log).WithContext(ctx).Should(And(
				ContainSubstring("The address cannot be had yet"), ContainSubstring(field+".listen"),
			))
			Expect(r.Log()).NotTo(ContainSubstring("Taking part"))
			Expect(taken.Close()).To(Succeed())
			Eventually(r.Log).WithContext(ctx).Should(ContainSubstring("Taking part"))
		},
		Entry("server", "server"), Entry("admin", Label(Nightly), "admin"))

	DescribeTable("a SQLite file that cannot be ends the replica with the code of a configuration",
		func(ctx SpecContext, path, want string) {
			o := newOwn("nofile", "groups: []\n")
			o.header["store"] = map[string]any{"uri": "sqlite:" + strings.ReplaceAll(path, "$(DIR)", o.dir)}
			r := o.start(ctx, "r1")
			Expect(ExitCode(ctx, r)).To(Equal(78), r.Log())
			expectOneError(r.Log(), "error: store: "+strings.ReplaceAll(want, "$(DIR)", o.dir))
		},
		Entry(
			"no directory", Label(Nightly), "$(DIR)/none/locks.db",
			`SQLite file "$(DIR)/none/locks.db": store refused: the directory "$(DIR)/none" does not exist`,
		),
		Entry("a directory", "$(DIR)", `SQLite file "$(DIR)": store refused: not a regular file (d---------)`))

	It("task lists that differ are reported, and nothing is lost", func(ctx SpecContext) {
		o := newOwn("differ", `
groups:
  - name: g
    tasks: [{name: "t{1..4}", exec: {command: [sleep, "1000"]}}]
`)
		a := o.start(ctx, "a")
		for _, name := range []string{"t1", "t2", "t3", "t4"} {
			eventuallyState(ctx, a, "g/"+name, "running")
		}
		o.body = strings.Replace(o.body, "{1..4}", "{3..6}", 1)
		b := o.start(ctx, "b")
		for r, other := range map[*harness.Replica]string{a: "b", b: "a"} {
			problem := eventuallyProblem(ctx, r, "ConfigDiffers")
			Expect(problem.Group).To(Equal("g"))
			Expect(problem.Message).To(And(ContainSubstring("that of "+other), ContainSubstring("revision 0")))
		}
		for _, name := range []string{"t5", "t6"} {
			Expect(eventuallyState(ctx, b, "g/"+name, "running").Instance).To(Equal("b"))
		}
		for _, name := range []string{"t1", "t2", "t3", "t4"} {
			Expect(eventuallyState(ctx, a, "g/"+name, "running").Instance).To(
				Equal("a"), "nothing is balanced away until they agree",
			)
		}

		By("agreeing")
		o.rewrite(a)
		eventuallyNoProblem(ctx, a, "ConfigDiffers")
		eventuallyNoProblem(ctx, b, "ConfigDiffers")
		Eventually(func() ([]string, error) {
			tasks, err := b.Client.Tasks(ctx)
			var owners []string
			for _, t := range tasks {
				if t.State == "running" {
					owners = append(owners, t.Instance)
				}
			}
			return owners, err
		}).Should(ConsistOf("a", "a", "b", "b"))
	}, SpecTimeout(ScenarioTimeout))
})

var _ = Describe("A MongoDB that asks for a password", Label("mongodb"), Ordered, func() {
	var rs *testmongo.ReplicaSet

	BeforeAll(func(ctx SpecContext) {
		rs = testmongo.New(GinkgoTB(), testmongo.Options{Standalone: true, Args: []string{"--auth"}})
		client, err := mongo.Connect(options.Client().ApplyURI(rs.URI()))
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = client.Disconnect(ctx) }()
		Expect(client.Database("admin").RunCommand(ctx, bson.D{
			{Key: "createUser", Value: "somebody"}, {Key: "pwd", Value: secret}, {Key: "roles", Value: bson.A{"root"}},
		}).Err()).To(Succeed())
	})

	It("refuses a wrong one: reported with a clear status, and the password is not shown", func(ctx SpecContext) {
		o := newOwn("password", "groups: [{name: a, tasks: [{name: b, exec: {command: [sleep, \"1000\"]}}]}]\n")
		o.header["store"] = map[string]any{"uri": withUser(rs, "wrong"+secret)}
		r := o.start(ctx, "r1")
		Expect(ExitCode(ctx, r)).To(Equal(78), "trying again would not help: %s", r.Log())
		Expect(r.Log()).To(And(
			ContainSubstring("the log-in failed: wrong user or password"), Not(ContainSubstring(secret)),
			Not(ContainSubstring("goroutine ")),
		))
	}, SpecTimeout(ScenarioTimeout))

	It("works with the right one, which is shown nowhere", func(ctx SpecContext) {
		o := newOwn("password", "groups: [{name: a, tasks: [{name: b, exec: {command: [env]}, restart: never}]}]\n")
		GinkgoT().Setenv("SHARDCTL_STORE_URI", withUser(rs, secret)) // tasks get the environment without it
		o.header["store"] = map[string]any{"uri": "$(SHARDCTL_STORE_URI)"}
		o.header["shutdown"] = map[string]any{"timeout": "1s"}
		o.header["log"] = map[string]any{"level": "debug"}
		r := o.start(ctx, "r1")
		eventuallyState(ctx, r, "a/b", "done")
		Expect(eventuallyProblem(ctx, r, "StoreStandalone").Message).NotTo(ContainSubstring(secret))
		for _, path := range []string{
			"/", "/api/v1/status", "/api/v1/tasks", "/api/v1/instances", "/api/v1/locks", "/api/v1/events", "/metrics",
			"/openapi.json",
		} {
			body, err := r.Client.Read(ctx, path)
			Expect(err).NotTo(HaveOccurred())
			Expect(body).NotTo(ContainSubstring(secret), path)
		}
		Expect(shardctl(ctx, "validate", "--print", r.Config).Stdout).To(
			And(ContainSubstring("$(SHARDCTL_STORE_URI)"), Not(ContainSubstring(secret))),
		)

		By("losing the store")
		rs.Nodes()[0].Kill()
		Eventually(func() ([]harness.Problem, error) {
			status, err := r.Client.Status(ctx)
			Expect(fmt.Sprintf("%+v", status)).NotTo(ContainSubstring(secret))
			return status.ProblemsOf("StoreUnreachable"), err
		}).ShouldNot(BeEmpty())
		Expect(o.Scale(ctx, 0)).To(Succeed())
		Expect(r.Log()).NotTo(ContainSubstring(secret))
	}, SpecTimeout(ScenarioTimeout))
})

// withUser is a set's URI with a user and password.
func withUser(rs *testmongo.ReplicaSet, password string) string {
	GinkgoHelper()
	u, err := url.Parse(rs.URI())
	Expect(err).NotTo(HaveOccurred())
	u.User = url.UserPassword("somebody", password)
	q := u.Query()
	q.Set("authSource", "admin")
	u.RawQuery, u.Path = q.Encode(), "/locks"
	return u.String()
}

// expectOneError says that a log holds this error and no other line that is not a log line, nor a stack trace.
func expectOneError(log, want string) {
	GinkgoHelper()
	var reported []string
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "{") {
			reported = append(reported, strings.TrimRight(line, "\n"))
		}
	}
	Expect(reported).To(Equal([]string{want}), log)
}
