//go:build unix

// Install brings all that the tests' brokers need, once: Debian's packages, which root installs and others learn of,
// Kafka's jars, and nats-server. Run it within the repository:
//
//	go run ./test/testbroker/install
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

// packages are Debian's. Maven fetches Kafka's jars; Kafka needs Java 17 or newer.
var packages = []string{"default-jre-headless", "maven", "rabbitmq-server", "mosquitto", "redis-server"}

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
