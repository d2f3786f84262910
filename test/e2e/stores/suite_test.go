//go:build linux

package stores_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

var (
	storesFlag = flag.String("stores", "", "kinds of servers to play on, with commas or blanks; empty: all")
	stormFlag  = flag.Duration("stores.storm", 60*time.Second, "how long the storm of faults lasts")
)

func TestScenarios(t *testing.T) { Run(t, "shardctl, on stores with a server of their own") }

// chosen skips a scenario on a store that was not asked for.
func chosen(kind testservers.Kind) {
	asked := strings.FieldsFunc(*storesFlag, func(r rune) bool { return r == ',' || r == ' ' })
	if len(asked) > 0 && !slices.Contains(asked, string(kind)) {
		Skip("not among the stores that were asked for: " + *storesFlag)
	}
	required := os.Getenv(testservers.EnvRequired)
	if required == "none" {
		Skip("needs a real " + string(kind) + ", which make e2e-stores has")
	}
}

// known skips scenarios on a server whose adapter the program does not have. Who asked for that store by its name is to
// hear of it.
func known(ctx SpecContext, kind testservers.Kind, uri string) {
	GinkgoHelper()
	file := filepath.Join(Work, string(kind)+"-known.yaml")
	text := fmt.Sprintf("version: 1\ncluster: e2e\nstore: {uri: %q}\n", uri)
	Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	got, err := harness.Command(ctx, Bins.Shardctl, "validate", file)
	Expect(err).NotTo(HaveOccurred())
	if strings.Contains(got.Stdout+got.Stderr, "known scheme") {
		Expect(*storesFlag).To(BeEmpty(), "the program has no adapter for %s", kind)
		Figure(string(kind), "NOT RUN: the program has no adapter")
		Skip("the program has no adapter for " + string(kind))
	}
	Expect(got.Code).To(BeZero(), "%s%s", got.Stdout, got.Stderr)
}
