//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var _ = Describe("Tasks that call a URL", Label("sqlite"), func() {
	It("say at each tick who calls, and the same key when they try again", func(ctx SpecContext) {
		far := newEndpoint()
		far.answering(func(c call) int {
			if c.Path == "/broken" {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		o := newOwn("httptick", fmt.Sprintf(`
groups:
  - name: g
    defaults: {every: 1s}
    tasks:
      - name: ping
        http:
          url: %[1]s/ping/$(SHARDCTL_TASK)
          method: PUT
          headers: {Team: core}
          body: '{"task": "$(SHARDCTL_TASK)"}'
          tokenFile: $(DIR)/token
      - {name: broken, http: {url: "%[1]s/broken"}, retry: {attempts: 2, backoff: {initial: 50ms, max: 50ms}}}
`, far.URL))
		o.body = strings.ReplaceAll(o.body, "$(DIR)", o.dir)
		Expect(os.WriteFile(filepath.Join(o.dir, "token"), []byte("first\n"), 0o600)).To(Succeed())
		a := o.start(ctx, "a")
		Eventually(func() []call { return far.of("g/ping") }).ShouldNot(BeEmpty())
		Expect(os.WriteFile(filepath.Join(o.dir, "token"), []byte("second\n"), 0o600)).To(Succeed())
		Eventually(func() []call { return far.of("g/ping") }).Should(
			ContainElement(HaveField("Header", HaveKeyWithValue("Authorization", []string{"Bearer second"}))),
		)

		last := int64(0)
		for _, c := range far.of("g/ping") {
			Expect(c).To(
				And(HaveField("Method", "PUT"), HaveField("Path", "/ping/ping"), HaveField("Body", `{"task": "ping"}`)),
			)
			at := c.Header.Get("Shardctl-Scheduled-At")
			_, err := time.Parse(time.RFC3339, at)
			Expect(err).NotTo(HaveOccurred())
			for name, want := range map[string]string{
				"Team": "core", "Shardctl-Task": "ping", "Shardctl-Group": "g", "Shardctl-Key": "g/ping",
				"Shardctl-Instance": "a",
				"Shardctl-Event":    "tick", "Idempotency-Key": "g/ping@" + at, "Shardctl-Valid-For": "",
			} {
				Expect(c.Header.Get(name)).To(Equal(want), name)
			}
			Expect(c.Token()).To(BeNumerically(">", last))
			last = c.Token()
		}
		Expect(far.of("g/ping")[0].Header.Get("Authorization")).To(Equal("Bearer first"))

		Eventually(func() []call { return far.of("g/broken") }).Should(HaveLen(4))
		tries := far.of("g/broken")
		Expect(tries[0].Method).To(Equal("POST"))
		Expect(tries[1].Header.Get("Idempotency-Key")).To(Equal(tries[0].Header.Get("Idempotency-Key")))
		Expect(tries[2].Header.Get("Idempotency-Key")).NotTo(Equal(tries[1].Header.Get("Idempotency-Key")))
		Expect(tries[1].Token()).To(BeNumerically(">", tries[0].Token()))
		eventuallyTask(ctx, a, "g/broken", HaveField("LastError", "tick: status 500 Internal Server Error"))
	}, Label(Nightly), SpecTimeout(ScenarioTimeout))

	It("get start, renew and stop, and never to two at once", func(ctx SpecContext) {
		far := newEndpoint()
		o := newOwn("httpsession", fmt.Sprintf(`
groups:
  - name: g
    tasks: [{name: t, http: {url: "%s/own", timeout: 300ms}, backoff: {initial: 100ms, max: 200ms}}]
`, far.URL))
		calls := func() []call { return far.of("g/t") }

		By("refusing the start")
		far.answering(func(call) int { return http.StatusServiceUnavailable })
		a := o.start(ctx, "a")
		eventuallyTask(
			ctx, a, "g/t", And(HaveField("State", "backoff"), HaveField("LastError", ContainSubstring("503"))),
		)
		far.answering(nil)
		eventuallyState(ctx, a, "g/t", "running")

		By("renewing")
		Eventually(func() int { return countEvent(calls(), "renew") }).Should(BeNumerically(">=", 2))
		for i, c := range calls() {
			Expect(c.Header.Get("Idempotency-Key")).To(HavePrefix(fmt.Sprintf("g/t#%d/%s/", c.Token(), c.Event())))
			// X is nine tenths of T; the request may take 300 ms of it.
			Expect(c.Until().Sub(c.At)).To(
				And(BeNumerically(">", 0), BeNumerically("<=", Lease*9/10-300*time.Millisecond)), "call %d", i,
			)
		}
		expectUnique(calls())

		By("refusing to renew until its time is over")
		far.answering(func(c call) int {
			if c.Event() == "renew" {
				return http.StatusConflict
			}
			return http.StatusNoContent
		})
		token := calls()[len(calls())-1].Token()
		Eventually(calls).Should(
			ContainElement(And(HaveField("Event()", "start"), HaveField("Token()", BeNumerically(">", token)))),
		)
		far.answering(nil)
		eventuallyState(ctx, a, "g/t", "running")

		By("killing the worker: others wait until what was granted is over")
		b := o.start(ctx, "b")
		EventuallyReady(ctx, b)
		token = calls()[len(calls())-1].Token()
		Expect(a.Kill(harness.Worker, syscall.SIGKILL)).Error().NotTo(HaveOccurred())
		eventuallyTask(ctx, b, "g/t", And(HaveField("State", "running"), HaveField("Instance", "b")))
		granted, began := time.Time{}, time.Time{}
		for _, c := range calls() {
			switch {
			case c.Header.Get("Shardctl-Instance") == "b" && began.IsZero():
				began = c.At
				Expect(c.Event()).To(Equal("start"))
				Expect(c.Token()).To(BeNumerically(">", token))
			case c.Header.Get("Shardctl-Instance") == "a" && c.Until().After(granted):
				granted = c.Until()
			}
		}
		Expect(began).To(BeTemporally(">=", granted), "b began before what a was granted was over")
		Figure(
			"sqlite", "worker of an http task killed: started elsewhere %v after its grant was over",
			began.Sub(granted).Round(time.Millisecond),
		)

		By("draining: the HTTP endpoint is asked to stop")
		c := o.start(ctx, "c")
		EventuallyReady(ctx, c)
		Expect(b.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		Expect(ExitCode(ctx, b)).To(BeZero())
		eventuallyTask(ctx, c, "g/t", And(HaveField("State", "running"), HaveField("Instance", "c")))
		var order []string
		for _, call := range calls() {
			if instance := call.Header.Get("Shardctl-Instance"); call.Event() != "renew" && instance != "a" {
				order = append(order, instance+" "+call.Event())
			}
		}
		// A call that is answered late is repeated.
		Expect(slices.Compact(order)).To(Equal([]string{"b start", "b stop", "c start"}))

		By("stopping while the HTTP endpoint does not answer: the key is held until the grant is over")
		far.answering(func(c call) int {
			if c.Event() == "stop" {
				return http.StatusInternalServerError
			}
			return http.StatusNoContent
		})
		d := o.start(ctx, "d")
		EventuallyReady(ctx, d)
		Expect(c.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
		eventuallyTask(ctx, d, "g/t", And(HaveField("State", "running"), HaveField("Instance", "d")))
		granted = time.Time{}
		for _, call := range calls() {
			if call.Header.Get("Shardctl-Instance") == "d" {
				Expect(call.At).To(BeTemporally(">=", granted))
				break
			}
			if call.Until().After(granted) {
				granted = call.Until()
			}
		}
		expectUnique(calls())
	}, SpecTimeout(ScenarioTimeout))
})

func countEvent(calls []call, event string) int {
	n := 0
	for _, c := range calls {
		if c.Event() == event {
			n++
		}
	}
	return n
}

// expectUnique says that no two calls have one Idempotency-Key.
func expectUnique(calls []call) {
	GinkgoHelper()
	seen := map[string]bool{}
	for _, c := range calls {
		key := c.Header.Get("Idempotency-Key")
		Expect(seen[key]).To(BeFalse(), "twice: %s", key)
		seen[key] = true
	}
}
