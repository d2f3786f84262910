// Package seeds fixes what is random in tests, so that a test that passes for one person passes for everybody.
//
// By day every seed is the same: the properties of [rapid] draw the same cases, and a test with a generator of its own
// takes its seed from [Of]. With the word "random" in SHARDCTL_TEST, as at night, each run draws a new seed, which is
// in the output; a test that fails under it becomes a fixed case.
//
// A test package that uses rapid imports this one, for its side effect if for nothing else.
package seeds

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // its flags are registered before this package changes one

	"github.com/shardctl/shardctl/test/suites"
)

// fixed is the seed by day.
const fixed = 1

// init fixes rapid's seed unless it is to be random or RAPID_SEED names one. The command line comes later and wins.
func init() {
	if suites.Random() || os.Getenv("RAPID_SEED") != "" {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(fixed)); err != nil {
		panic(err) // rapid renamed its flag
	}
}

// Of returns the seed of a test. asked is the value of a flag of the test; 0: none was given.
func Of(tb testing.TB, asked uint64) uint64 {
	tb.Helper()
	seed := uint64(fixed)
	switch {
	case asked != 0:
		seed = asked
	case suites.Random():
		seed = 1 + rand.Uint64N(1_000_000)
	}
	tb.Logf("seed %d", seed)
	return seed
}
