//go:build linux

package suite

import (
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Words of failures that no second attempt makes up for.
const (
	TwoRuns    = "two runs of one key were alive at once"
	TokensFell = "tokens must strictly increase"
	Lost       = "messages were lost or out of order"
)

// With -ginkgo.flake-attempts=2 a scenario that failed is tried once more: on a machine that stands still for seconds,
// replicas rightly lose their leases, and what a scenario promises does not hold. What failed first is printed. Only
// what must hold on any machine has no second attempt.
var _ = ReportAfterSuite("attempts", func(report Report) {
	failed, unsafe := firstAttempts(report)
	for _, line := range failed {
		fmt.Fprintln(os.Stdout, "tried again:", line)
	}
	Expect(unsafe).To(BeEmpty(), "what must hold on any machine has no second attempt")
})

// firstAttempts are the failures of scenarios that were tried again, and those of them that nothing excuses.
func firstAttempts(report Report) (failed, unsafe []string) {
	for _, spec := range report.SpecReports {
		if spec.NumAttempts < 2 {
			continue
		}
		for _, failure := range spec.AdditionalFailures {
			line := fmt.Sprintf("%s: %.400s", spec.FullText(), failure.Failure.Message)
			failed = append(failed, line)
			for _, words := range []string{TwoRuns, TokensFell, Lost} {
				if strings.Contains(failure.Failure.Message, words) {
					unsafe = append(unsafe, line)
				}
			}
		}
	}
	return failed, unsafe
}
