// Package harness runs the real program for end-to-end scenarios and benchmarks: replicas as processes with a
// configuration, a log and ports of their own, tasks that record when they ran, and a client of the HTTP interface that
// knows nothing but its documentation.
//
// It judges nothing. Its checks look once and return an error that says what is not yet as it should be; a scenario
// repeats them until they pass or its patience ends.
//
// Linux only: processes are found through /proc, and all of them die with the test by a parent-death signal.
package harness
