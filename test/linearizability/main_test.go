package linearizability

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
)

var (
	seconds  = flag.Int("linearizability.seconds", 40, "how long histories are recorded, per store")
	seedFlag = flag.Uint64("linearizability.seed", 0, "the seed of what clients do and of the faults; 0: any. Real time is not part of it: a run never comes back quite the same")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testmongo.Main(m))
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64N(1_000_000)
	}
	t.Logf("seed %d", s)
	return s
}

func length() time.Duration { return time.Duration(*seconds) * time.Second }
