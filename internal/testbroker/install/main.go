//go:build unix

// Install brings all that the tests' brokers need, once: Debian's packages, which root installs and others learn of,
// Kafka's jars, and nats-server. Run it within the repository:
//
//	go run ./internal/testbroker/install
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/shardctl/shardctl/internal/testbroker"
)

// packages are Debian's. Maven fetches Kafka's jars; Kafka needs Java 17 or newer.
var packages = []string{"default-jre-headless", "maven", "rabbitmq-server", "mosquitto", "redis-server"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

// run provides every kind, and installs the packages first where one is missing.
func run(ctx context.Context) error {
	err := provide(ctx)
	if err == nil || !errors.Is(err, testbroker.ErrMissing) {
		return err
	}
	apt, notFound := exec.LookPath("apt-get")
	if os.Geteuid() != 0 || notFound != nil {
		return fmt.Errorf("%w\n(root on Debian gets the packages installed by this command)", err)
	}
	for _, args := range [][]string{
		{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, apt, args...) //nolint:gosec // fixed arguments
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return provide(ctx)
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
