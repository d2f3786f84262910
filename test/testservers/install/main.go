//go:build unix

// Install brings all that the tests' servers of stores need, once: Debian's packages, which root installs and others
// learn of, and etcd, which is built. No service is started. Run it within the repository:
//
//	go run ./test/testservers/install
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// packages are Debian's. A Redis server is a sentinel too. ZooKeeper needs Java.
var packages = []string{
	"postgresql", "pgbouncer", "mariadb-server", "redis-server", "zookeeper", "default-jre-headless",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := testprocess.Install(ctx, packages, provide); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

// provide returns the errors of all kinds.
func provide(ctx context.Context) error {
	return testservers.ProvideAll(ctx, func(name string) { fmt.Fprintln(os.Stdout, name, "is at hand") })
}
