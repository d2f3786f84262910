// Command jobs runs a cron job on one of several processes. Start it in two terminals:
//
//	go run ./examples/jobs -instance a
//	go run ./examples/jobs -instance b
//
// One of them runs the job every five seconds. End it with Ctrl-C, and the other goes on with the next tick. End it
// with kill -9, and the other goes on after the lease.
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

	"github.com/shardctl/shardctl/pkg/jobs"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() {
	path := flag.String("store", "jobs.db", "SQLite file that all processes share")
	instance := flag.String("instance", "a", "name of this process")
	spec := flag.String("schedule", "@every 5s", `when the job is due: five fields of cron, or "@every 5s"`)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *path, *instance, *spec, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run shares the job with the other processes on the store until ctx ends.
func run(ctx context.Context, path, instance, spec string, out io.Writer) error {
	// For MongoDB: mongo.Open(ctx, mongo.Options{URI: "mongodb://db-0,db-1,db-2/shardctl?replicaSet=rs0"})
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	m, err := jobs.New(jobs.Config{Store: store, Instance: instance, Lease: 10 * time.Second})
	if err != nil {
		return err
	}
	err = m.Add(spec, "report", func(_ context.Context, run jobs.Run) error {
		fmt.Fprintf(out, "%s runs the tick of %s, with token %d\n", instance, run.ScheduledAt.Format(time.TimeOnly),
			run.Token)
		return nil
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}
