// Package suites decides which tests run.
//
// `go test ./...` runs the tests that need nothing but Go: no server, no other language, no judgement by the wall clock.
// Everything else belongs to a named [Suite], and a suite runs when the environment asks for it:
//
//	SHARDCTL_TEST=mongo go test ./pkg/store/mongo
//	SHARDCTL_TEST=all,required go test ./...
//
// A test that is left out is skipped, and the reason names the suite and the make target that runs it. With the word
// "required" in the list, a test of a chosen suite fails when the software that it needs is missing; without the word
// it is skipped and says what to install. The word "random" has tests draw new seeds, and "whole"
// adds the tests that CI has no time for. docs/adr/0020-go-test.md explains the choice.
//
// Only tests use this package.
package suites

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Env is the environment variable that lists the suites to run, separated by commas. Empty: none of them.
const Env = "SHARDCTL_TEST"

// Suite names a group of tests that `go test ./...` leaves out.
type Suite string

// The suites. The chart, the page and the modules of their own have make targets, and no tests in this module.
const (
	Processes Suite = "processes" // real processes and signals, or the wall clock; nothing to install
	Scenarios Suite = "scenarios" // test/e2e: clusters of real replicas on SQLite and MongoDB
	Models    Suite = "models"    // searches and simulations that take minutes
	Mongo     Suite = "mongo"     // a real MongoDB
	Stores    Suite = "stores"    // real servers of PostgreSQL, MariaDB, etcd, ZooKeeper and Redis
	Brokers   Suite = "brokers"   // real servers of Kafka, RabbitMQ, Mosquitto, Redis and NATS
	Clients   Suite = "clients"   // Python, Node and a JDK
	Cluster   Suite = "cluster"   // a Kubernetes cluster
)

// What else the variable may say.
const (
	all      = "all"
	required = "required"
	random   = "random"
	whole    = "whole"
)

// Names returns the name of every suite.
func Names() []Suite {
	return []Suite{Processes, Scenarios, Models, Mongo, Stores, Brokers, Clients, Cluster}
}

// Need skips a test unless the environment asks for its suite. what completes the sentence "needs …".
func Need(tb testing.TB, s Suite, what string) {
	tb.Helper()
	if !Chosen(tb, s) {
		tb.Skipf("needs %s: make %s, or %s=%s", what, s, Env, s)
	}
}

// Chosen reports whether the environment asks for a suite. The test fails if it names an unknown one.
func Chosen(tb testing.TB, s Suite) bool {
	tb.Helper()
	chosen := false
	for _, name := range words() {
		switch {
		case slices.Contains([]string{required, random, whole}, name):
		case name == all || name == string(s):
			chosen = true
		case !slices.Contains(Names(), Suite(name)):
			tb.Fatalf("%s: unknown suite %q; want some of %v, %s, %s, %s or %s", Env, name, Names(), all,
				required, random, whole)
		}
	}
	return chosen
}

// NeedWhole is [Need] for a test that CI has no time for: its suite must be asked for whole, as at night.
func NeedWhole(tb testing.TB, s Suite, what string) {
	tb.Helper()
	Need(tb, s, what)
	if !slices.Contains(words(), whole) {
		tb.Skipf("needs %s and time: make %s WHOLE=1, or %s=%s,%s", what, s, Env, s, whole)
	}
}

// Missing ends a test of a chosen suite that lacks the software it needs: the test is skipped, or fails if everything
// is required.
func Missing(tb testing.TB, why error) {
	tb.Helper()
	if slices.Contains(words(), required) {
		tb.Fatal(why)
	} else {
		tb.Skip(why)
	}
}

// Random reports whether tests are to draw new random seeds. See package seeds.
func Random() bool { return slices.Contains(words(), random) }

func words() []string {
	return strings.FieldsFunc(os.Getenv(Env), func(r rune) bool { return r == ',' || r == ' ' })
}
