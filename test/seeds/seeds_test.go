package seeds_test

import (
	"flag"
	"testing"

	"github.com/shardctl/shardctl/test/seeds"
	"github.com/shardctl/shardctl/test/suites"
)

func TestOf(t *testing.T) {
	t.Setenv(suites.Env, "")
	if first := seeds.Of(t, 0); first != seeds.Of(t, 0) || seeds.Of(t, 7) != 7 {
		t.Error("by day a seed is fixed, unless one was asked for")
	}
	t.Setenv(suites.Env, "random")
	drawn := map[uint64]bool{}
	for range 20 {
		drawn[seeds.Of(t, 0)] = true
	}
	if len(drawn) < 2 || drawn[0] {
		t.Errorf("drew %v, want different seeds above 0", drawn)
	}
}

func TestRapidIsFixed(t *testing.T) {
	if suites.Random() {
		t.Skip("seeds are to be random")
	}
	if got := flag.Lookup("rapid.seed").Value.String(); got == "0" {
		t.Error("rapid draws a random seed")
	}
}
