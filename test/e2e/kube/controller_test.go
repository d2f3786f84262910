//go:build linux

package kube_test

import (
	"os"
	"os/exec"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// The processes run on this machine, with a database file of their own. The objects are in the cluster.
var _ = Describe("A controller whose replicas share the objects", Label(Nightly), func() {
	It("reconciles each by one at a time, and again after a kill", func(ctx SpecContext) {
		program := os.Getenv("KUBE_CONTROLLER")
		if program == "" {
			Skip("KUBE_CONTROLLER does not name the test of examples/controller, which `make cluster` compiles")
		}
		test := exec.CommandContext(ctx, program, "-test.v", "-test.run", "^TestReplicasShareTheObjects$")
		test.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true")
		out, err := test.CombinedOutput()
		for _, figure := range regexp.MustCompile(`(?m)figure: (.*)$`).FindAllSubmatch(out, -1) {
			Figure("controller", "%s", figure[1])
		}
		logged := regexp.MustCompile(`(?m)^\s*[IWE]\d{4} .*\n`) // by the processes
		Expect(err).NotTo(HaveOccurred(), string(logged.ReplaceAll(out, nil)))
	}, SpecTimeout(2*ScenarioTimeout))
})
