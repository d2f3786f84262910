//go:build linux

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// Errors that a real server answers with. They come while it loses its role or shuts down, or when a majority is late.
// Others come when an operator kills an operation, or when a change stream is not to be resumed.
var _ = Describe("Errors of the server", Label("mongodb", "faults-mongo"), Ordered, ContinueOnFailure, func() {
	commands := append([]string{"find"}, writes...)
	events := []string{"aggregate", "getMore"}
	DescribeTable("leave no key stuck, run none twice and restart no task", underFaults("errors"),
		Entry(
			"written, no majority in time (64 WriteConcernFailed)", unreplicated(often, 64, "WriteConcernFailed"),
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"written, then shutting down (91 ShutdownInProgress)", Label(Nightly), unreplicated(seldom, 91, "ShutdownInProgress"),
			SpecTimeout(ScenarioTimeout),
		),
		Entry("10107 NotWritablePrimary", Label(Nightly),
			answers(seldom, 10107, commands), SpecTimeout(ScenarioTimeout)),
		Entry("11602 InterruptedDueToReplStateChange", Label(Nightly),
			answers(seldom, 11602, commands), SpecTimeout(ScenarioTimeout)),
		Entry("189 PrimarySteppedDown", Label(Nightly), answers(seldom, 189, commands), SpecTimeout(ScenarioTimeout)),
		Entry("91 ShutdownInProgress", Label(Nightly), answers(seldom, 91, commands), SpecTimeout(ScenarioTimeout)),
		Entry("50 MaxTimeMSExpired", Label(Nightly), answers(often, 50, commands), SpecTimeout(ScenarioTimeout)),
		Entry("11601 Interrupted", Label(Nightly), answers(often, 11601, commands), SpecTimeout(ScenarioTimeout)),
		Entry(
			"134 ReadConcernMajorityNotAvailableYet", Label(Nightly), answers(often, 134, []string{"find", "aggregate"}),
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"a watch that is lost (286 ChangeStreamHistoryLost)", Label(Nightly), answers(often, 286, events),
			SpecTimeout(ScenarioTimeout),
		),
		Entry(
			"a watch whose cursor is gone (43 CursorNotFound)", Label(Nightly), answers(often, 43, events),
			SpecTimeout(ScenarioTimeout),
		),
	)
})
