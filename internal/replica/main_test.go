package replica

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testmongo"
)

func TestMain(m *testing.M) { os.Exit(testmongo.Main(m)) }
