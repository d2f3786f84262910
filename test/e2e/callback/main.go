//go:build linux

// Command callback is a service that embeds the packages instead of running under shardctl: one process, without a
// guard, whose tasks are Go functions. The scenarios run several copies on one SQLite file. All tasks are steady but
// one, which does what --bad says:
//
//	block   it takes no notice of its context and never returns
//	panic   it panics, each time after a moment
//	leak    it leaves goroutines behind that never end, and fails
//
// Every run of a task writes the time into a file of its own in RECORD_DIR. SIGTERM gives everything up in order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// settings are what the scenario says.
type settings struct {
	file, instance, bad string
	lease               time.Duration
	steady              int
}

func main() { os.Exit(status()) }

func status() int {
	var s settings
	flag.StringVar(&s.file, "db", "", "the SQLite file")
	flag.StringVar(&s.instance, "instance", "", "this process's name")
	flag.StringVar(&s.bad, "bad", badBlock, "what the bad task does: block, panic, leak")
	flag.DurationVar(&s.lease, "lease", 4*time.Second, "T")
	flag.IntVar(&s.steady, "steady", 6, "tasks that behave")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, s, logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "callback:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, s settings, log logr.Logger) error {
	db, err := open(ctx, s.file)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	elector, err := elect.New(elect.Config{
		Store: db, Member: elect.Member{Instance: s.instance, ListHashes: map[string]string{group: "1"}},
		LeaseDuration: s.lease,
		Logger:        log, // OnStuck is left out: this is about the default
	})
	if err != nil {
		return fmt.Errorf("make the elector: %w", err)
	}
	registry, err := callbacks(s)
	if err != nil {
		return err
	}
	supervisor, err := supervisor.New(supervisor.Config{ //nolint:contextcheck // its loop lives until Close
		Instance: s.instance, Lease: s.lease, Registry: registry, Logger: log, Alarms: supervisor.Alarms{
			StuckAfter: 500 * time.Millisecond,
			OnStuck:    func(t tasks.Task, _ time.Time) { log.Info("StopStuck", "key", t.Key()) },
		},
	})
	if err != nil {
		return err
	}
	defer supervisor.Close()
	declared := list(s)
	supervisor.Declare(declared)
	loop, err := reconcile.NewLoop(reconcile.LoopConfig{
		Cluster: elector.Cluster(), Clock: time.Now, Logger: log,
		Policy: reconcile.Policy{Settle: 300 * time.Millisecond, FirstQuiet: 300 * time.Millisecond},
		Run:    supervisor.Runnable,
	})
	if err != nil {
		return fmt.Errorf("make the loop: %w", err)
	}
	go logGoroutines(ctx, log)
	both, ctx := errgroup.WithContext(ctx)
	if err := elector.Start(ctx); err != nil {
		return err
	}
	both.Go(elector.Wait)
	both.Go(func() error { return loop.Run(context.WithoutCancel(ctx)) })
	if err := loop.Declare(ctx, declaration(declared)); err != nil && !errors.Is(err, elect.ErrClosed) {
		return fmt.Errorf("declare the tasks: %w", err)
	}
	return both.Wait()
}

// open waits for a store that is not available. Copies that start together set one file up, and SQLite lets some of
// them wait in vain.
func open(ctx context.Context, file string) (store.Store, error) {
	for {
		db, err := sqlite.Open(ctx, file, sqlite.Options{})
		if !errors.Is(err, elect.ErrUnavailable) || ctx.Err() != nil {
			return db, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// logGoroutines shows what leaks.
func logGoroutines(ctx context.Context, log logr.Logger) {
	for tick := time.NewTicker(time.Second); ctx.Err() == nil; <-tick.C {
		log.Info("alive", "goroutines", runtime.NumGoroutine())
	}
}
