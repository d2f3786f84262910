// Package harness runs the real program for end-to-end scenarios and benchmarks. Replicas are processes with a
// configuration, a log and ports of their own, and tasks record when they ran. A client of the HTTP interface knows
// nothing but its documentation.
//
// It judges nothing. Its checks look once and return an error that says what is not yet as it should be. A scenario
// repeats them until they pass or its patience ends.
//
// Linux only: processes are found through /proc, and all of them die with the test by a parent-death signal.
package harness
