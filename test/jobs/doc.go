// Jobs runs what the targets test, ci and nightly of the Makefile are made of: named jobs, each a target of the
// Makefile. Jobs of one lane run one after the other; lanes run beside each other. At the end stands a table, the
// longest job first, with what was tried again and what was cut short.
//
//	go run ./test/jobs test
//	go run ./test/jobs nightly stores brokers
//	go run ./test/jobs -list ci
//
// All jobs of a run have one temporary directory, and a mark in their environment. What they leave in the one, or with
// the other, is reported and removed. It is a failure of test. On Linux the directory is in memory where there is room
// for it; TMPDIR chooses another place.
package main
