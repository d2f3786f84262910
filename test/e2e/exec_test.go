//go:build linux

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// notifyEnv makes this test program a command that says READY=1 once the file it names is there, and then sleeps.
const notifyEnv = "E2E_NOTIFY_AFTER"

func init() { //nolint:gochecknoinits // before any test: this process is not one
	file := os.Getenv(notifyEnv)
	if file == "" {
		return
	}
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	socket, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err == nil {
		_, err = socket.Write([]byte("READY=1\n"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Hour)
	os.Exit(0)
}

var _ = Describe("Commands", Label("sqlite"), func() {
	It("are started again after a growing pause, as often as maxRestarts says, and then have failed", Label("P9"),
		func(ctx SpecContext) {
			o := newOwn("restart", `
groups:
  - name: g
    defaults: {backoff: {initial: 200ms, max: 2s}}
    tasks:
      - name: crash
        maxRestarts: 3
        exec: {command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN" >> $(DIR)/crash; exit 3']}
      - name: missing
        maxRestarts: 1
        exec: {command: [./no-such-program]}
      - name: third-time-lucky
        restart: on-failure
        exec: {command: [sh, -c, 'echo x >> $(DIR)/lucky; test "$(wc -l < $(DIR)/lucky)" -ge 3']}
      - name: short
        exec: {command: [sh, -c, 'echo "$SHARDCTL_FENCING_TOKEN" >> $(DIR)/short']}
      - name: steady
        exec: {command: [sleep, "1000"]}
`)
			o.body = strings.ReplaceAll(o.body, `"$(wc`, `"$$(wc`)
			a := o.start(ctx, "a")

			failed := eventuallyState(ctx, a, "g/crash", "failed")
			Expect(failed).To(
				And(HaveField("Restarts", 3), HaveField("LastError", "exit status 3"), HaveField("Instance", "")),
			)
			expectRising(o.lines("crash"), 4)
			Expect(eventuallyState(ctx, a, "g/missing", "failed").LastError).To(ContainSubstring("no-such-program"))
			eventuallyState(ctx, a, "g/third-time-lucky", "done")
			Expect(o.lines("lucky")).To(HaveLen(3))
			Eventually(func() int { return len(o.lines("short")) }).Should(
				BeNumerically(">=", 3), "restart: always is also after success",
			)
			expectRising(o.lines("short"), -1)
			eventuallyState(ctx, a, "g/steady", "running")
			Expect(eventuallyProblem(ctx, a, "TaskFailing").Message).NotTo(BeEmpty())
			status, err := a.Client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.ProblemsOf("TaskFailing")).To(ContainElement(And(
				HaveField("Task", "g/crash"), HaveField("Message", ContainSubstring("exit status 3")))))

			By("waiting for what cannot come")
			waited := shardctl(ctx, "wait", "--for=running", "g/crash", "--server", a.Client.AdminURL())
			Expect(waited.Code).To(Equal(1))
			Expect(waited.Stderr).To(ContainSubstring("failed"))

			By("handing over: what has failed stays so")
			b := o.start(ctx, "b")
			EventuallyReady(ctx, b)
			Expect(a.Kill(harness.Guard, 15)).Error().NotTo(HaveOccurred())
			Expect(ExitCode(ctx, a)).To(BeZero())
			eventuallyTask(ctx, b, "g/steady", And(HaveField("State", "running"), HaveField("Instance", "b")))
			Expect(task(ctx, b, "g/crash")).To(HaveField("State", "failed"))
			Expect(task(ctx, b, "g/third-time-lucky")).To(HaveField("State", "done"))
			Expect(o.lines("crash")).To(HaveLen(4))
			Expect(o.lines("lucky")).To(HaveLen(3))
		}, SpecTimeout(ScenarioTimeout))

	It("are starting until they are ready", func(ctx SpecContext) {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		o := newOwn("ready", fmt.Sprintf(`
groups:
  - name: g
    tasks:
      - {name: delayed, exec: {command: [sleep, "1000"], ready: {delay: 1500ms}}}
      - {name: notifies, exec: {command: [%q], env: {%s: $(DIR)/go}, ready: {notify: true}}}
      - {name: never-says, exec: {command: [sleep, "1000"], ready: {notify: true}}}
`, self, notifyEnv))
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/delayed", "starting")
		eventuallyState(ctx, a, "g/notifies", "starting")
		began := time.Now()
		eventuallyState(ctx, a, "g/delayed", "running")
		Expect(time.Since(began)).To(BeNumerically(">", 500*time.Millisecond))
		Expect(task(ctx, a, "g/notifies")).To(HaveField("State", "starting"))
		Expect(os.WriteFile(filepath.Join(o.dir, "go"), nil, 0o600)).To(Succeed())
		eventuallyState(ctx, a, "g/notifies", "running")
		Expect(task(ctx, a, "g/never-says")).To(HaveField("State", "starting"))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("write to the log line by line, and any replica gives their last lines", func(ctx SpecContext) {
		o := newOwn("output", `
groups:
  - name: g
    tasks:
      - name: t
        exec:
          command: [sh, -c, 'echo "I am $SHARDCTL_KEY on $SHARDCTL_INSTANCE, $WORD, $0 $SHARDCTL_INDEX"; sleep 0.2; echo oops >&2; printf unfinished; sleep 1000', $(SHARDCTL_TASK)]
          env: {WORD: "$(file:$(DIR)/word)"}
`)
		Expect(os.WriteFile(filepath.Join(o.dir, "word"), []byte("hello"), 0o600)).To(Succeed())
		a := o.start(ctx, "a")
		eventuallyState(ctx, a, "g/t", "running")
		b := o.start(ctx, "b")
		eventuallyState(ctx, b, "g/t", "running")
		for _, r := range []*harness.Replica{a, b} {
			Eventually(func() (string, error) { return r.Client.Read(ctx, "/api/v1/tasks/g/t/logs") }).
				Should(And(ContainSubstring("I am g/t on a, hello, t \n"), ContainSubstring("oops\n")), r.Name)
			Eventually(func() (string, error) {
				return r.Client.Read(
					ctx, "/api/v1/tasks/g/t/logs?tail=1",
				)
			}).Should(Equal("oops\n"))
		}
		Eventually(a.Log).Should(And(
			MatchRegexp(`"msg":"I am g/t on a, hello, t ","key":"g/t","stream":"stdout"`),
			MatchRegexp(`"msg":"oops","key":"g/t","stream":"stderr"`)))
		for path, want := range map[string]int{
			"/api/v1/tasks/g/none/logs": 404, "/api/v1/tasks/g/t/logs?tail=0": 400,
			"/api/v1/tasks/g/t/logs?lines=3": 400,
		} {
			code, body, err := b.Client.Ask(ctx, path)
			Expect(err).NotTo(HaveOccurred())
			Expect(code).To(Equal(want), "%s: %s", path, body)
		}

		By("losing the owner")
		Expect(a.Kill(harness.Worker, 9)).Error().NotTo(HaveOccurred())
		Eventually(func() (string, error) { return b.Client.Read(ctx, "/api/v1/tasks/g/t/logs") }).Should(
			ContainSubstring("I am g/t on b"),
		)
	}, SpecTimeout(ScenarioTimeout))
})

// expectRising says that these are n tokens, each larger than the one before; -1: any number.
func expectRising(tokens []string, n int) {
	GinkgoHelper()
	if n >= 0 {
		Expect(tokens).To(HaveLen(n))
	}
	var fell []string
	for i := range tokens {
		if i > 0 && (len(tokens[i-1]) > len(tokens[i]) || len(tokens[i-1]) == len(tokens[i]) &&
			tokens[i-1] >= tokens[i]) {
			fell = append(fell, tokens[i-1]+" before "+tokens[i])
		}
	}
	ExpectSafe(fell, TokensFell)
}
