//go:build linux

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// That no key runs twice at once and that tokens rise is judged at the end of the cluster, by what was recorded.
var _ = Describe("An application beside each replica", Label("sqlite"), func() {
	const keys = 20

	// cluster starts five replicas, each with an application that its guard starts.
	cluster := func(ctx context.Context, name string) (*own, []*harness.Replica) {
		GinkgoHelper()
		o := newOwn(name, "\ngroups: [{name: topics, tasks: [{name: \"topic-{01..20}\", assign: {}}]}]\n")
		o.header["lease"] = map[string]any{"duration": Lease.String()}
		sockets, err := os.MkdirTemp("", "shardctl-app-") // the path of a socket is short
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(os.RemoveAll(sockets)).To(Succeed()) })
		program, err := filepath.Abs("recorder/application.py")
		Expect(err).NotTo(HaveOccurred())
		var replicas []*harness.Replica
		for _, instance := range []string{"a", "b", "c", "d", "e"} {
			replicas = append(replicas, o.start(ctx, instance, map[string]any{"app": map[string]any{
				"listen": "unix:" + filepath.Join(sockets, instance), "command": []string{"python3", program},
			}}))
		}
		return o, replicas
	}
	owners := func(o *own) map[string]history.Run { return Load(o.Cluster).OwnersAt(history.Now()) }
	// run waits until every key runs, on so many instances.
	run := func(o *own, instances int) {
		GinkgoHelper()
		Eventually(func() map[string]history.Run { return owners(o) }).Should(HaveLen(keys))
		Eventually(func() map[string]int { return history.ByInstance(owners(o)) }).Should(HaveLen(instances))
	}
	// free waits until every key that ran on an instance then runs again, and says how long the longest took.
	free := func(o *own, instance string, at history.Instant) time.Duration {
		GinkgoHelper()
		longest := time.Duration(0)
		for key, before := range Load(o.Cluster).OwnersAt(at) {
			if before.Instance != instance {
				continue
			}
			Eventually(func() int64 { return owners(o)[key].Token }).Should(BeNumerically(">", before.Token), key)
			for _, next := range Load(o.Cluster).Runs(key) {
				if next.Token > before.Token {
					longest = max(longest, next.Start.Sub(before.End))
					break
				}
			}
		}
		return longest
	}
	application := func(r *harness.Replica) harness.Proc {
		GinkgoHelper()
		procs := r.TaskProcs()
		Expect(procs).To(HaveLen(1))
		return procs[0]
	}

	It("loses no key and runs none twice, whatever is killed", func(ctx SpecContext) {
		o, r := cluster(ctx, "app-killed")
		run(o, 5)

		at := history.Now()
		Expect(application(r[0]).Signal(syscall.SIGKILL)).To(Succeed())
		Figure("sqlite", "application killed: its keys run again %v after", free(o, "a", at).Round(time.Millisecond))
		Expect(r[0].Running()).To(BeTrue())
		run(o, 5)

		before := application(r[1])
		at, err := r[1].Kill(harness.Worker, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		Figure("sqlite", "worker killed: the keys of its application run again %v after", free(o, "b", at).Round(time.Millisecond))
		Expect(before.Alive()).To(BeFalse(), "the guard ends the application first")
		run(o, 4)

		at, err = r[2].Kill(harness.Both, syscall.SIGKILL)
		Expect(err).NotTo(HaveOccurred())
		Figure("sqlite", "guard and worker killed: the keys run again %v after", free(o, "c", at).Round(time.Millisecond))
		run(o, 3)

		at, err = r[3].Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		Expect(ExitCode(ctx, r[3])).To(BeZero(), r[3].LogTail(20))
		Figure("sqlite", "SIGTERM: the keys of the application run again %v after", free(o, "d", at).Round(time.Millisecond))
		run(o, 2)
	}, SpecTimeout(ScenarioTimeout))

	It("is killed when it is frozen, while its replica goes on", func(ctx SpecContext) {
		o, r := cluster(ctx, "app-frozen")
		run(o, 5)
		frozen, at := application(r[0]), history.Now()
		Expect(frozen.Signal(syscall.SIGSTOP)).To(Succeed())
		Figure("sqlite", "application frozen: its keys run again %v after", free(o, "a", at).Round(time.Millisecond))
		Expect(frozen.Alive()).To(BeFalse())
		Expect(r[0].Running()).To(BeTrue())
		run(o, 5)
	}, SpecTimeout(ScenarioTimeout))
})
