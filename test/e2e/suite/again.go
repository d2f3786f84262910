//go:build linux

package suite

import (
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

// Words for what must not be on any machine.
const (
	TwoRuns    = "two runs of one key were alive at once"
	TokensFell = "tokens must strictly increase"
	Lost       = "messages were lost or out of order"
)

// unsafe is the name of report entries that say such a thing. Those of all attempts stay in the report of a scenario.
const unsafe = "unsafe"

// ExpectSafe wants nothing to have been found that must not be on any machine. If something was, the suite fails,
// whatever comes of a second attempt.
func ExpectSafe(found []string, what string) {
	GinkgoHelper()
	for _, line := range found {
		AddReportEntry(unsafe, fmt.Sprintf("%s: %.400s", what, line))
	}
	Expect(found).To(BeEmpty(), what)
}

// firstAttempt is the name of report entries with the failures of attempts that others followed.
const firstAttempt = "first attempt"

// What failed first is in the scenario's report. Of suites that run in several processes nothing else is printed.
var _ = AfterEach(func() {
	is := CurrentSpecReport()
	if is.Failed() && is.NumAttempts < is.MaxFlakeAttempts {
		AddReportEntry(firstAttempt, said(is.Failure))
	}
})

// said is what a failure says and where. One of a time that was over holds what was waited for.
func said(failure types.Failure) string {
	text := fmt.Sprintf("%s\n%.1000s", failure.Location, failure.Message)
	if after := failure.AdditionalFailure; after != nil {
		text += "\n" + said(after.Failure)
	}
	return text
}

// With -ginkgo.flake-attempts=2 a scenario that failed is tried once more: on a machine that stands still for seconds,
// replicas rightly lose their leases, and what a scenario promises does not hold. What failed first is printed. Only
// what must hold on any machine has no second attempt.
var _ = ReportAfterSuite("attempts", func(report Report) {
	for _, line := range firstAttempts(report) {
		fmt.Fprintln(os.Stdout, "tried again:", line)
	}
	Expect(foundUnsafe(report)).To(BeEmpty(), "what must hold on any machine has no second attempt")
})

// firstAttempts are the failures of scenarios that were tried again.
func firstAttempts(report Report) (failed []string) {
	for _, spec := range report.SpecReports {
		if spec.NumAttempts < 2 {
			continue
		}
		for _, failure := range spec.AdditionalFailures {
			failed = append(failed, fmt.Sprintf("%s: %.400s", spec.FullText(), failure.Failure.Message))
		}
	}
	return failed
}

// foundUnsafe is what was found in any attempt and nothing excuses.
func foundUnsafe(report Report) (found []string) {
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if entry.Name == unsafe {
				found = append(found, spec.FullText()+": "+entry.StringRepresentation())
			}
		}
	}
	return found
}
