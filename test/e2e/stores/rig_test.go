//go:build linux

package stores_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

const (
	tasks    = 12
	replicas = 3
)

// rig is a store's own server, a link to it that can be cut, and a cluster on one of its databases.
type rig struct {
	kind    testservers.Kind
	server  *testprocess.Server
	link    *testprocess.Proxy
	cluster *harness.Cluster
	uri     string // of the database, past the link
}

func newRig(ctx SpecContext, kind testservers.Kind) *rig {
	GinkgoHelper()
	dir, err := os.MkdirTemp(Work, string(kind)+"-server-")
	Expect(err).NotTo(HaveOccurred())
	r := &rig{kind: kind}
	r.server, err = testservers.Open(context.WithoutCancel(ctx), kind, dir, testprocess.Options{})
	if errors.Is(err, testservers.ErrMissing) {
		suites.Missing(GinkgoTB(), err)
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.server.Close)
	r.link, err = testprocess.NewProxy(ctx, testprocess.Loopback+":0", r.server.Addr())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.link.Close)
	r.uri, err = testservers.Database(ctx, r.server)
	Expect(err).NotTo(HaveOccurred())
	r.cluster = NewCluster(string(kind), harness.Options{StoreURI: r.uri, Tasks: tasks})
	NothingLost(r.cluster)
	return r
}

// name is what figures call the store.
func (r *rig) name() string { return string(r.kind) }

// balanced brings the cluster to three replicas that share its tasks.
func (r *rig) balanced(ctx context.Context) {
	GinkgoHelper()
	Expect(r.cluster.Scale(ctx, replicas)).To(Succeed())
	r.spread(ctx)
}

// spread waits until all tasks run, evenly.
func (r *rig) spread(ctx context.Context) {
	GinkgoHelper()
	Eventually(r.cluster.CheckSpread).WithContext(ctx).WithArguments(tasks).Should(Succeed())
}

// start starts one more replica, by way of the link or past it.
func (r *rig) start(ctx context.Context, name string, linked bool) *harness.Replica {
	GinkgoHelper()
	r.cluster.StoreURI = r.uri
	if linked {
		r.cluster.StoreURI = strings.ReplaceAll(r.uri, r.server.Addr(), r.link.Addr)
	}
	defer func() { r.cluster.StoreURI = r.uri }()
	started, err := r.cluster.Start(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return started
}

// hit signals a part of a replica.
func hit(one *harness.Replica, part harness.Part, sig syscall.Signal) history.Instant {
	GinkgoHelper()
	at, err := one.Kill(part, sig)
	Expect(err).NotTo(HaveOccurred())
	return at
}

// taken waits until keys were started after an instant, and returns when the last of them was.
func (r *rig) taken(ctx context.Context, keys []string, since history.Instant) (first, last history.Instant) {
	GinkgoHelper()
	Eventually(r.cluster.CheckTaken).WithContext(ctx).WithArguments(keys, since).Should(Succeed())
	return Load(r.cluster).FirstStarts(keys, since)
}

// ended waits for the orderly end of a replica.
func ended(ctx context.Context, one *harness.Replica) {
	GinkgoHelper()
	state, err := one.Wait(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(state.ExitCode()).To(Equal(0), "%s: %s", one.Name, one.LogTail(5))
}

// restart starts the server again.
func (r *rig) restart(ctx context.Context) error { return r.server.Start(context.WithoutCancel(ctx)) }

// gaps are those before the runs that started since an instant.
func (r *rig) gaps(since history.Instant) string {
	GinkgoHelper()
	return history.Summary(history.Lengths(Load(r.cluster).Gaps(since, history.Now())))
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
