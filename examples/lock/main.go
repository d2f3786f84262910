// Command lock does a piece of work in one of several processes. Start it in two terminals:
//
//	go run ./examples/lock -instance a
//	go run ./examples/lock -instance b
//
// The first one works, and the second one waits. End the first with Ctrl-C, and the second takes over within a moment.
// End it with kill -9, and the second takes over after the lease.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	path := flag.String("store", "lock.db", "SQLite file that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *path, *instance, 10*time.Second, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run holds the lock for as long as ctx lasts, whenever no other process has it.
func run(ctx context.Context, path, instance string, lease time.Duration, out io.Writer) error {
	// For MongoDB: mongo.Open(ctx, mongo.Options{URI: "mongodb://db-0,db-1,db-2/shardctl?replicaSet=rs0"})
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	g, ctx := errgroup.WithContext(ctx)
	elector, err := elect.Start(ctx, elect.Config{
		Store:         store,
		Member:        elect.Member{Instance: instance},
		LeaseDuration: lease,
	})
	if err != nil {
		return err
	}
	g.Go(elector.Wait) // when ctx ends it releases the lock, in order
	g.Go(func() error {
		key := elect.NewKey("reports", "monthly")
		report := func(ctx context.Context, lease *elect.Lease) error {
			return writeReport(ctx, instance, lease.Token(), out)
		}
		_, err := elector.LockWith(ctx, key, elect.LockOptions{Wait: 24 * time.Hour}, report)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to stop while it waited
		}
		return err
	})
	return g.Wait()
}

// writeReport stands for the work. Its context ends when the lock is to be released, or when the lease is lost.
func writeReport(ctx context.Context, instance string, token int64, out io.Writer) error {
	fmt.Fprintf(out, "%s works, with token %d\n", instance, token)
	<-ctx.Done()
	fmt.Fprintf(out, "%s stops: %v\n", instance, context.Cause(ctx))
	return nil // only now is the lock released
}
