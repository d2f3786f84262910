package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/dev"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

func devCommand() *cobra.Command {
	o := dev.Defaults()
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster to play with: real replicas on this machine, a screen and the page",
		Long: `Run a cluster to play with: real replica processes on this machine, on a SQLite file of their own with a lease of 2 s,
and the page, which takes changes as well. On a terminal single keys act on the replica with the highest number, or on
the one whose number was typed before (3k): k kill -9 it, w kill -9 its worker only, s stop it in order, a add one,
q quit. Without a terminal every change is printed as a line. Everything it started ends with it.
A replica that was killed or stopped stays away. One whose lease ran out by itself, as on a busy machine, is started
again after 3 s, and a line says so.

With --store the replicas use that store instead. There the cluster is called dev, and its documents stay.`,
		Example: `  shardctl dev
  shardctl logs topics/topic-001 -f --server http://127.0.0.1:8080
  shardctl drain r2 --server http://127.0.0.1:8080
  shardctl dev --replicas 3 --tasks 12 --cap 6
  shardctl dev --store '$(SHARDCTL_STORE_URI)'`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			expanded, err := decode.Expand(o.Store, os.LookupEnv)
			if err != nil {
				return usage("--store: %w", err)
			}
			o.Store = expanded
			if err := o.Validate(); err != nil {
				return usage("%w", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			err = dev.Run(ctx, o, cmd.OutOrStdout(), terminal())
			if errors.Is(err, dev.ErrPort) {
				return usage("%w", err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Replicas, "replicas", o.Replicas, "how many replicas, 1 to 50")
	flags.IntVar(&o.Tasks, "tasks", o.Tasks, "how many tasks, 1 to 10000")
	flags.IntVar(&o.Cap, "cap", o.Cap, "most tasks that one replica owns")
	flags.StringVar(&o.Store, "store", "", "URI of a store to use, which may hold $(NAME) and $(file:PATH)")
	flags.IntVar(&o.Port, "port", o.Port, "where the page is, on 127.0.0.1; 0: any free port")
	return cmd
}

// terminal is the terminal that the program talks to, or nil when it cannot be drawn on.
func terminal() *dev.Terminal {
	in, out := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	if os.Getenv("TERM") == "dumb" || !term.IsTerminal(in) || !term.IsTerminal(out) {
		return nil
	}
	return &dev.Terminal{In: os.Stdin, Out: os.Stdout}
}
