//go:build linux

// Command shard is a service in Go for the end-to-end scenarios: its keys record as the command recorder does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/shard"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const period = 20 * time.Millisecond // between two timestamps

func main() {
	store := flag.String("store", "", "URI of the store that all processes share")
	instance := flag.String("instance", "", "name of this process")
	keys := flag.Int("keys", 100, "number of keys")
	lease := flag.Duration("lease", 4*time.Second, "how long a process may be silent")
	settle := flag.Duration("settle", time.Second, "how long membership must rest before keys move for balance")
	flag.Parse()
	var names []string
	for i := range *keys {
		names = append(names, fmt.Sprintf("topic-%03d", i+1))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := shard.Run(ctx, shard.Config{
		Store: *store, Group: "topics", Keys: names, Instance: *instance, Lease: *lease, Settle: *settle,
	}, func(ctx context.Context, own shard.Lease) error { return record(ctx, *instance, own) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shard:", err)
		os.Exit(1)
	}
}

// record notes that a key runs until ctx ends.
func record(ctx context.Context, instance string, own shard.Lease) error {
	w, err := history.Create(os.Getenv("RECORD_DIR"), history.Header{
		Key: own.Key(), Token: own.Token(), Session: "none", Instance: instance, PID: os.Getpid(), Period: period,
	}, now())
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what is written is written
	for tick := time.NewTicker(period); ; {
		select {
		case <-tick.C:
			if err := w.Append(now()); err != nil {
				return err
			}
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}

func now() history.Timestamp {
	return history.Timestamp{At: history.Now(), Wall: time.Now().UnixNano()}
}
