//go:build unix

// Install brings all that the tests' servers of stores, or their message brokers, need, once: Debian's packages, which
// root installs and others learn of, and what is fetched or built: etcd, or Kafka's jars and nats-server. No service is
// started. Run it within the repository:
//
//	go run ./test/install stores
//	go run ./test/install brokers
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// kit is what some tests need.
type kit struct {
	packages []string // of Debian
	provide  func(context.Context) error
}

var kits = map[string]kit{
	// A Redis server is a sentinel too. ZooKeeper needs Java.
	"stores": {[]string{
		"postgresql", "pgbouncer", "mariadb-server", "redis-server", "zookeeper", "default-jre-headless",
	}, provideStores},
	// Maven fetches Kafka's jars; Kafka needs Java 17 or newer.
	"brokers": {
		[]string{"default-jre-headless", "maven", "rabbitmq-server", "mosquitto", "redis-server"}, provideBrokers,
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wanted, known := kit{}, false
	if len(os.Args) == 2 {
		wanted, known = kits[os.Args[1]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/install stores|brokers")
		os.Exit(2) //nolint:gocritic // stop has nothing to do any more
	}
	if err := testprocess.Install(ctx, wanted.packages, wanted.provide); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// provideStores returns the errors of all kinds.
func provideStores(ctx context.Context) error {
	return testservers.ProvideAll(ctx, func(name string) { fmt.Fprintln(os.Stdout, name, "is at hand") })
}

// provideBrokers returns the errors of all kinds.
func provideBrokers(ctx context.Context) error {
	var errs []error
	for _, kind := range testbroker.Kinds() {
		err := testbroker.Provide(ctx, kind)
		if err == nil {
			fmt.Fprintln(os.Stdout, kind, "is at hand")
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
