//go:build linux

package suite

import (
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// Figure notes what a scenario measured; store (or another subject) comes first in its line. Scenarios assert order and
// completeness; how fast is for people and benchmarks, since a test machine may be busy.
func Figure(store, format string, args ...any) {
	AddReportEntry(figureOf(CurrentSpecReport().NumAttempts), store+": "+fmt.Sprintf(format, args...))
}

// figureOf is the name of report entries with the figures of an attempt.
func figureOf(attempt int) string {
	if attempt < 2 {
		return "figure"
	}
	return fmt.Sprintf("figure of attempt %d", attempt)
}

// figures are what the last attempt of each scenario measured.
func figures(report Report) (lines []string) {
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if entry.Name == figureOf(spec.NumAttempts) {
				lines = append(lines, entry.StringRepresentation())
			}
		}
	}
	return lines
}

var _ = ReportAfterSuite("figures", func(report Report) {
	fmt.Fprintln(os.Stdout) // ends the line of those left out
	for _, line := range figures(report) {
		fmt.Fprintln(os.Stdout, "figure:", line)
	}
	// where anyone who looks at the end of a log finds it
	for _, spec := range report.SpecReports.WithState(types.SpecStateFailureStates) {
		fmt.Fprintf(os.Stdout, "failed: %s: %.400s\n", spec.FullText(), spec.FailureMessage())
	}
	if work == nil {
		return // it could not be made
	}
	failed := !report.SuiteSucceeded || len(foundUnsafe(report)) > 0
	if failed {
		fmt.Fprintln(os.Stdout, "configurations, logs and records are in", work.Dir)
	}
	if err := work.Close(failed); err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
})
