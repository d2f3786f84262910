//go:build linux

package stores_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

var (
	storesFlag = flag.String("stores", "", "kinds of servers to play on, with commas or blanks; empty: all")
	chaosFlag  = flag.Duration("stores.chaos", 60*time.Second, "how long the random faults last")
)

// allStores bounds the scenarios on all stores, one after the other.
const allStores = 50 * time.Minute

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestScenarios(t *testing.T) {
	RunWithin(t, suites.Stores, "shardctl, on stores with a server of their own", allStores)
}

// chosen skips a scenario on a store that was not asked for.
func chosen(kind testservers.Kind) {
	asked := strings.FieldsFunc(*storesFlag, func(r rune) bool { return r == ',' || r == ' ' })
	if len(asked) > 0 && !slices.Contains(asked, string(kind)) {
		Skip("not among the stores that were asked for: " + *storesFlag)
	}
}
