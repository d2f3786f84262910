// Command mutex works in turns with other processes, one at a time. Start it in several terminals:
//
//	go run ./examples/mutex -instance a
//	go run ./examples/mutex -instance b
//
// End one with Ctrl-C or kill -9: the others go on, after kill -9 when its lease is over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	// The stores that the flag can name. A program needs only its own.
	"github.com/shardctl/shardctl/pkg/mutex"
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
)

func main() {
	uri := flag.String("store", "sqlite:mutex.db", "URI of the store that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *uri, *instance, 5*time.Second, time.Second, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes turns until ctx ends. Each turn works for the duration of work, under a lease of that duration.
func run(ctx context.Context, uri, instance string, lease, work time.Duration, out io.Writer) error {
	locks, err := mutex.Open(ctx, uri, func(c *elect.Config) { c.LeaseDuration = lease })
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		if err := turn(ctx, locks, instance, work, out); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// turn waits for the lock, works under it, and gives it back.
func turn(ctx context.Context, locks *mutex.Locks, instance string, work time.Duration, out io.Writer) error {
	held, err := locks.Mutex("reports/monthly").Lock(ctx)
	if err != nil {
		return err
	}
	//nolint:contextcheck // the lock's context has the values of ctx
	err = writeReport(held.Context(), instance, held.Token(), work, out)
	return errors.Join(err, held.Unlock(context.WithoutCancel(ctx)))
}

// writeReport stands for the work. Its context ends at once when the lock is lost.
func writeReport(ctx context.Context, instance string, token int64, work time.Duration, out io.Writer) error {
	fmt.Fprintf(out, "%s works, with token %d\n", instance, token)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(work):
	}
	fmt.Fprintf(out, "%s is done, with token %d\n", instance, token)
	return nil
}
