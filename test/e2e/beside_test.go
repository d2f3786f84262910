//go:build linux

package e2e_test

import (
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// As in a pod whose application is a container of its own. That no key runs twice at once is judged at the end of the
// cluster.
var _ = Describe("An application that its replica did not start", Label("sqlite"), Serial, func() {
	It("goes on alone, and its keys wait until it may no longer run", func(ctx SpecContext) {
		a := newApplications("app-beside", 20)
		apps, replicas := map[string]*harness.Replica{}, map[string]*harness.Replica{}
		for _, instance := range []string{"a", "b", "c", "d"} {
			var err error
			apps[instance], err = a.StartProgram("application-"+instance, "env", append([]string{
				"SHARDCTL_APP=unix:" + a.socket(instance), "SHARDCTL_INSTANCE=" + instance, "SHARDCTL_SESSION=none",
			}, python()...)...)
			Expect(err).NotTo(HaveOccurred())
			replicas[instance] = a.with(ctx, instance)
		}
		a.run(4)

		// killed kills a part of a replica. Its application disobeys, and so runs for as long as was promised to it.
		killed := func(what, instance string, part harness.Part) {
			GinkgoHelper()
			Expect(apps[instance].GuardProc().Signal(syscall.SIGUSR1)).To(Succeed())
			at, err := replicas[instance].Kill(part, syscall.SIGKILL)
			Expect(err).NotTo(HaveOccurred())
			Expect(ExitCode(ctx, apps[instance])).To(Equal(75), apps[instance].LogTail(20))
			alone := history.Now().Sub(at)
			Expect(alone).To(BeNumerically(">", Lease/4), "it went on alone")
			free := a.free(instance, at)
			ExpectWithin(a.Cluster, Lease+AfterLease, at, at.Add(alone+free), "the keys of an application that went on")
			Figure(
				"sqlite", "%s killed, T %v: an application that disobeys ended %v after, and its keys run again %v later",
				what, Lease, alone.Round(time.Millisecond), free.Round(time.Millisecond),
			)
		}
		killed("worker", "a", harness.Worker)
		a.run(3)
		killed("guard and worker", "b", harness.Both)
		a.run(2)

		// A pod that ends: the replica is its ordinary container, and gets SIGTERM before the application does.
		at, err := replicas["c"].Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		Expect(ExitCode(ctx, replicas["c"])).To(BeZero(), replicas["c"].LogTail(20))
		Expect(apps["c"].Running()).To(BeTrue())
		gap := a.free("c", at)
		ExpectHandedOver(a.Cluster, "c", at) // none waited for the validity
		Figure("sqlite", "SIGTERM beside an application: its keys run again %v after", gap.Round(time.Millisecond))
		a.run(1)
	}, SpecTimeout(ScenarioTimeout))
})
