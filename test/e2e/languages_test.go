//go:build linux

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

var _ = Describe("Applications in other languages", Label("sqlite", Nightly), Serial, func() {
	play := func(ctx SpecContext, name string, command func(SpecContext) []string) {
		GinkgoHelper()
		a, argv := newApplications("app-"+name, 20), command(ctx)
		first, second := a.with(ctx, "a", argv...), a.with(ctx, "b", argv...)
		a.run(2)

		at := history.Now()
		Expect(applicationOf(first).Signal(syscall.SIGKILL)).To(Succeed())
		killed := a.free("a", at)
		ExpectWithin(a.Cluster, WorkerDied, at, at.Add(killed), "the keys of an application that was killed")
		a.run(2)

		at, err := second.Kill(harness.Guard, syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred())
		Expect(ExitCode(ctx, second)).To(BeZero(), second.LogTail(20))
		ended := a.free("b", at)
		ExpectHandedOver(a.Cluster, "b", at)
		a.run(1)
		Figure(name, "its keys run again %v after it was killed, and %v after SIGTERM",
			killed.Round(time.Millisecond), ended.Round(time.Millisecond))
	}
	DescribeTable("lose no key and run none twice", play,
		Entry("in TypeScript", SpecTimeout(ScenarioTimeout), "typescript", node),
		Entry("in Java", SpecTimeout(ScenarioTimeout), "java", java))
})

func node(SpecContext) []string {
	GinkgoHelper()
	needClients("node")
	program, err := filepath.Abs("recorder/application.mjs")
	Expect(err).NotTo(HaveOccurred())
	return []string{"node", program}
}

// java compiles the library with the application.
func java(ctx SpecContext) []string {
	GinkgoHelper()
	needClients("java", "javac")
	classes, err := os.MkdirTemp(Work, "java-")
	Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob("../../clients/java/src/main/java/dev/shardctl/*.java")
	Expect(err).NotTo(HaveOccurred())
	args := append([]string{"--release", "17", "-d", classes, "recorder/Application.java"}, files...)
	out, err := exec.CommandContext(ctx, "javac", args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classes, "Application"}
}

// needClients skips a scenario as test/clients does, where programs are missing.
func needClients(programs ...string) {
	GinkgoHelper()
	testprocess.NeedPrograms(GinkgoTB(), suites.Clients, "make clients-install", programs...)
}
