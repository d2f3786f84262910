package replica

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/test/testprocess"
)

// envGuard has the test binary be a guard, whose worker runs the tests.
const envGuard = "REPLICA_TEST_GUARD"

func TestMain(m *testing.M) {
	if os.Getenv(envGuard) == "" || wire.IsWorker() {
		os.Exit(testprocess.Main(m))
	}
	code, err := guard.Run(context.Background(), guard.Config{
		Name: "test", Log: funcr.New(func(_, args string) { fmt.Fprintln(os.Stderr, "guard:", args) }, funcr.Options{}),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
	}
	os.Exit(code)
}
