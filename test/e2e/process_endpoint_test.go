//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// deafCall is one request that the HTTP endpoint got.
type deafCall struct {
	Instance, Event string
	Token           int64
	At              time.Time
	Until           time.Time // the HTTP endpoint may work so long for it; zero for a stop
}

// deafSide is a service that works for an http task and takes no notice of stop: the request hangs until the caller
// gives up. Start and renew are answered.
type deafSide struct {
	*httptest.Server
	mu    sync.Mutex
	calls []deafCall
}

func newDeafSide() *deafSide {
	d := &deafSide{}
	d.Server = httptest.NewServer(d)
	DeferCleanup(func() {
		d.CloseClientConnections() // stops hang as long as their replicas
		d.Close()
	})
	return d
}

// ServeHTTP implements http.Handler.
func (d *deafSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := deafCall{Instance: r.Header.Get("Shardctl-Instance"), Event: r.Header.Get("Shardctl-Event"), At: time.Now()}
	c.Token, _ = strconv.ParseInt(r.Header.Get("Shardctl-Fencing-Token"), 10, 64)
	if seconds, err := strconv.ParseFloat(r.Header.Get("Shardctl-Valid-For"), 64); err == nil && c.Event != "stop" {
		c.Until = c.At.Add(time.Duration(seconds * float64(time.Second)))
	}
	d.mu.Lock()
	d.calls = append(d.calls, c)
	d.mu.Unlock()
	if c.Event == "stop" {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// seen are all calls so far, in order.
func (d *deafSide) seen() []deafCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// of are the calls of one replica.
func (d *deafSide) of(instance string) []deafCall {
	return slices.DeleteFunc(d.seen(), func(c deafCall) bool { return c.Instance != instance })
}

// granted is the last moment up to which a replica let the HTTP endpoint work.
func (d *deafSide) granted(instance string) time.Time {
	var until time.Time
	for _, c := range d.of(instance) {
		if c.Until.After(until) {
			until = c.Until
		}
	}
	return until
}

// An HTTP endpoint cannot be killed. What it was granted has to run out before anybody else lets it, or another, begin:
// whatever happens to the replica meanwhile.
var _ = Describe("The HTTP endpoint of an http task that never answers stop", func() {
	const key = "g/far"
	var c *harness.Cluster

	// start starts a replica and waits until it takes part.
	start := func(ctx context.Context, far *deafSide, uri, name string, shutdown time.Duration) *harness.Replica {
		GinkgoHelper()
		r, err := c.StartWith(ctx, name, func(server, admin string) (string, error) {
			return fmt.Sprintf(`
version: 1
cluster: far
instance: %s
store: {uri: %q}
lease: {duration: %s}
rebalance: {settle: 300ms}
shutdown: {timeout: %s}
server: {listen: %q, advertise: %q}
admin: {listen: %q}
groups:
  - name: g
    tasks: [{name: far, http: {url: "%s/work", timeout: 500ms}}]
`, name, uri, Lease, shutdown, server, server, admin, far.URL), nil
		})
		Expect(err).NotTo(HaveOccurred())
		EventuallyReady(ctx, r)
		return r
	}

	for _, fault := range []struct {
		what     string
		shutdown time.Duration
		part     harness.Part
		signals  []syscall.Signal
		nightly  bool
	}{
		{"its replica drains", 20 * time.Second, harness.Guard, []syscall.Signal{syscall.SIGTERM}, false},
		{
			"its replica drains and has no time to wait", 200 * time.Millisecond, harness.Guard,
			[]syscall.Signal{syscall.SIGTERM},
			true,
		},
		{
			"its replica is asked to stop hard", 20 * time.Second, harness.Guard,
			[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM},
			true,
		},
		{"the worker dies while it waits", 20 * time.Second, harness.Worker, []syscall.Signal{syscall.SIGKILL}, true},
		{"guard and worker die while it waits", 20 * time.Second, harness.Both, []syscall.Signal{syscall.SIGKILL}, false},
	} {
		It("is not joined by another before its time is over, when "+fault.what, func(ctx SpecContext) {
			far, uri := newDeafSide(), SQLiteURI()
			c = NewCluster("far", harness.Options{})
			old := start(ctx, far, uri, "old", fault.shutdown)
			Eventually(func() []deafCall { return far.of("old") }).Should(ContainElement(HaveField("Event", "renew")))
			next := start(ctx, far, uri, "next", time.Second)
			token := far.of("old")[0].Token

			began := time.Now()
			if fault.signals[0] == syscall.SIGKILL { // which comes while the stop is under way
				Expect(old.Kill(harness.Guard, syscall.SIGTERM)).Error().NotTo(HaveOccurred())
			}
			for i, sig := range fault.signals {
				if i > 0 || sig == syscall.SIGKILL {
					Eventually(func() []deafCall { return far.of("old") }).Should(
						ContainElement(HaveField("Event", "stop")),
					)
				}
				Expect(old.Kill(fault.part, sig)).Error().NotTo(HaveOccurred())
			}
			Eventually(func() []deafCall { return far.of("next") }).ShouldNot(BeEmpty())
			first, granted := far.of("next")[0], far.granted("old")
			Figure("sqlite", "stop unanswered, %s: began elsewhere %v after the order, %v after the last grant was "+
				"over", fault.what,
				ms(first.At.Sub(began)), ms(first.At.Sub(granted)))
			Expect(first.Event).To(Equal("start"))
			Expect(first.At).To(BeTemporally(">=", granted), "the HTTP endpoint may still have worked for the old")
			Expect(first.Token).To(BeNumerically(">", token))
			since := history.Now().Add(-time.Since(began))
			ExpectWithin(c, 2*Lease, since, since.Add(first.At.Sub(began)), "a key that is not held for ever")
			for _, call := range far.of("old") {
				Expect(call.At).To(BeTemporally("<", first.At), "the old says nothing any more: %+v", call)
			}
			ExitCode(ctx, old)
			Eventually(func() ([]harness.Task, error) { return next.Client.Tasks(ctx) }).
				Should(
					ConsistOf(And(HaveField("Key", key), HaveField("State", "running"), HaveField("Instance", "next"))),
				)
		}, NightlyIf(fault.nightly), SpecTimeout(ScenarioTimeout))
	}
}, Label("faults-process", "sqlite"))
