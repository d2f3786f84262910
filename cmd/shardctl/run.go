package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/frugal"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/tasks"
)

type runOptions struct {
	paths     []string
	waitStore time.Duration
	untilDone bool
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --config PATH",
		Short: "Run one replica",
		Long: "Run one replica until it is asked to stop. SIGTERM hands all tasks over and exits, a second signal " +
			"stops hard, SIGHUP reads\n" +
			"the configuration again.",
		Example: `  shardctl run --config shardctl.yaml
  shardctl run --config base.yaml --config tasks.d/
  shardctl run --config jobs.yaml --until-done`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.paths) == 0 {
				return usage("--config: required, a file or a directory")
			}
			if o.waitStore < 0 {
				return usage("--wait-store %v: must not be negative", o.waitStore)
			}
			if guard.Present() {
				return runWorker(cmd.Context(), o)
			}
			return runGuard(cmd.Context(), o)
		},
	}
	cmd.Flags().StringArrayVar(&o.paths, "config", nil, "configuration file or directory; may be given several times")
	cli.DurationFlag(
		cmd.Flags(), &o.waitStore, "wait-store", 5*time.Minute,
		"how long to wait for the store at the start; 0: fail at once",
	)
	cmd.Flags().BoolVar(
		&o.untilDone, "until-done", false, "exit once every restart: never task is done: 0, or 1 if one failed",
	)
	return cmd
}

// configOptions are what configurations are read with. This program has no callbacks.
func configOptions() config.Options {
	return config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers(), Callbacks: &tasks.Registry{}}
}

// load reads the configuration. Every error is printed here, one a line as compilers do, and the exit code is 2.
func load(paths []string) (*config.Settings, error) { return loadWith(paths, configOptions()) }

func loadWith(paths []string, options config.Options) (*config.Settings, error) {
	s, err := config.Load(paths, options)
	if err == nil {
		return s, nil
	}
	fmt.Fprintln(os.Stderr, err)
	return nil, cli.Exit{Code: cli.CodeUsage}
}

// runGuard is the parent process: it starts the worker, and ends the tasks and marks their session dead should the
// worker die.
func runGuard(ctx context.Context, o runOptions) error {
	s, err := load(o.paths)
	if err != nil {
		return err
	}
	if o.untilDone && len(jobs(s)) == 0 {
		return usage("--until-done: no task has restart: never")
	}
	out := newLogs(s.Log, os.Stderr)
	defer out.close()
	instance := s.Instance
	log := out.own.WithName("guard").WithValues("instance", instance)
	// The guard needs to know how to reach the store and no tasks, of which there may be very many.
	s = &config.Settings{Cluster: s.Cluster, Store: s.Store, Lease: s.Lease}
	frugal.Rest()
	db := &guardStore{config: replica.StoreConfig(s, log)}
	code, err := guard.Run(ctx, guard.Config{
		Name:      instance,
		Log:       log,
		Prepare:   func(ctx context.Context) error { _, err := db.open(ctx); return err },
		Obstructs: func(pid int) bool { return replica.Obstructs(s, pid) },
		MarkDead:  db.markDead,
	})
	if code != 0 {
		return cli.Exit{Code: code, Err: err} // without an error the worker has said why
	}
	return err
}
