package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/dev"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
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
		Long: `Run one replica until it is asked to stop. SIGTERM hands all tasks over and exits, a second signal stops ` +
			`hard, SIGHUP reads
the configuration again. An address in use is waited for, 30 s.

Exit code 0: stopped in order, or all is done; 1: it failed; 2: the command line is wrong; 70: it crashed; 75: the lease
was lost while work went on; 78: the configuration is wrong, or the store refuses; 128+N: signal N ended it. Start it
again after everything but 78.`,
		Example: `  shardctl run --config shardctl.yaml
  shardctl run --config base.yaml --config tasks.d/
  shardctl run --config jobs.yaml --until-done`,
		Args: cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.paths) == 0 {
				return usage("--config: required, a file or a directory")
			}
			if o.waitStore < 0 {
				return usage("--wait-store %v: must not be negative", o.waitStore)
			}
			if wire.IsWorker() {
				return asSupervised(runWorker(cmd.Context(), o))
			}
			return asSupervised(runGuard(cmd.Context(), o))
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

// asSupervised gives an error of the configuration the code that supervisors do not start a program again after. That of
// the command line is not among them: Go programs that crash end with it.
func asSupervised(err error) error {
	if e, ok := errors.AsType[cli.Exit](err); ok && e.Code == cli.CodeUsage {
		return cli.Exit{Code: cli.CodeConfig, Err: e.Err}
	}
	return err
}

// configOptions are what configurations are read with.
func configOptions() config.Options {
	callbacks := options.Callbacks
	if callbacks == nil {
		callbacks = &tasks.Registry{} // there are none, which is not the same as not knowing them
	}
	return config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers(), Callbacks: callbacks}
}

// load reads the configuration. Every error is printed here, one a line as compilers do, and the exit code is
// [cli.CodeUsage].
func load(paths []string) (*config.Config, error) { return loadWith(paths, configOptions()) }

func loadWith(paths []string, options config.Options) (*config.Config, error) {
	s, err := config.Load(paths, options)
	if err == nil {
		return s, nil
	}
	fmt.Fprintln(cli.Shown(os.Stderr), err)
	return nil, cli.Exit{Code: cli.CodeUsage}
}

// runGuard is the parent process: it starts the worker, and ends the tasks and marks their session dead should the
// worker die.
func runGuard(ctx context.Context, o runOptions) error {
	read, err := load(o.paths)
	if err != nil {
		return err
	}
	if o.untilDone && len(jobs(read.Settings)) == 0 {
		return usage("--until-done: no task has restart: never")
	}
	out := newLogs(read.Log, os.Stderr)
	defer out.close()
	instance := read.Instance
	log := out.own.WithName("guard").WithValues("instance", instance)
	// The guard needs to know how to reach the store and no tasks, of which there may be very many.
	s := &settings.Settings{Cluster: read.Cluster, Store: read.Store, Lease: read.Lease}
	giveBack()
	db := &guardStore{config: s.StoreConfig(log)}
	code, err := guard.Run(ctx, guard.Config{
		Name: instance,
		Log:  log,
		Prepare: func(ctx context.Context) error {
			_, err := db.open(ctx)
			giveBack()
			return err
		},
		Obstructs: func(pid int) bool { return obstructs(s, pid) },
		MarkDead:  db.markDead,

		KeepSession: db.keepSession,
	})
	if code != 0 {
		return cli.Exit{Code: code, Err: err} // without an error the worker has said why
	}
	return err
}

// guardStore is the store of a guard, opened on first use. There are as many guards as workers, and each writes once at
// most. The worker has set the store up.
type guardStore struct {
	config store.Config

	mu sync.Mutex
	db store.Store
}

func (g *guardStore) open(ctx context.Context) (store.Store, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.db != nil {
		return g.db, nil
	}
	c := g.config
	c.Existing = true
	var err error
	g.db, err = store.Open(ctx, c)
	return g.db, err
}

// markDead marks sessions of the worker dead, with the remote leases that are still open.
func (g *guardStore) markDead(ctx context.Context, sessions []electing.Session) error {
	db, err := g.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range sessions {
		errs = append(errs, electing.MarkDead(ctx, db, s))
	}
	return errors.Join(errs...)
}

// keepSession stands in for the worker while something of its tasks cannot be ended.
func (g *guardStore) keepSession(ctx context.Context, session string, runs func(elect.Key) bool) error {
	db, err := g.open(ctx)
	if err != nil {
		return err
	}
	return electing.Keep(ctx, db, session, runs)
}

// discovering are the names of the groups that make tasks of what exists.
func discovering(s *settings.Settings) []string {
	var names []string
	for _, g := range s.Groups {
		if g.Discover != nil {
			names = append(names, g.Name)
		}
	}
	return names
}

func validateCommand() *cobra.Command {
	var printed bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check a configuration and report everything that is wrong with it",
		Long: `Check files and directories of configuration, as run would read them, and report everything ` +
			`that is wrong at once:
FILE:LINE:COL: field: what is wrong, what is allowed. The path - is standard input. No store is asked.

Exit code 0: it is good; 2: it is not. What is allowed and probably not meant is a warning, and leaves it at 0.`,
		Example: `  shardctl validate shardctl.yaml
  shardctl validate --print conf.d/
  sed s/20s/10s/ shardctl.yaml | shardctl validate -`,
		Args: cli.Arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a file or a directory, or - for standard input")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, paths []string) error {
			reading := configOptions()
			reading.Stdin = cmd.InOrStdin()
			s, err := loadWith(paths, reading)
			if err != nil {
				return err
			}
			for _, warning := range s.Warnings {
				_, _ = fmt.Fprintf(cli.Shown(cmd.ErrOrStderr()), "warning: %v\n", warning) // the exit code counts
			}
			if printed {
				return s.Print(cli.Shown(cmd.OutOrStdout()))
			}
			more := ""
			if names := discovering(s.Settings); len(names) > 0 {
				more = ", and those that are discovered for " + strings.Join(names, ", ")
			}
			_, err = fmt.Fprintf(
				cli.Shown(cmd.OutOrStdout()), "ok: %s in %s%s\n", cli.Count(s.Tasks(), "task"),
				cli.Count(len(s.Groups), "group"), more,
			)
			return err
		},
	}
	cmd.Flags().BoolVar(&printed, "print", false, "print the effective configuration: braces expanded, secrets masked")
	return cmd
}

func devCommand() *cobra.Command {
	o := dev.Defaults()
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster to play with: real replicas on this machine, a screen and the page",
		Long: `Run a cluster to play with: real replica processes on this machine, on a SQLite file of their ` +
			`own with a lease of 2 s,
and the page, which takes changes as well. On a terminal single keys act on the replica with the highest number, or on
the one whose number was typed before (3k): k kill -9 it, w kill -9 its worker only, s stop it in order, a add one,
q quit. Without a terminal every change is printed as a line. Everything it started ends with it.
A replica that was killed or stopped stays away. One whose lease ran out by itself, as on a busy machine, is started
again after 3 s, and a line says so.

With --app each replica starts an application by that line for sh, and the tasks are assigned to the applications.

With --store the replicas use that store instead. There the cluster is called dev, and its documents stay.`,
		Example: `  shardctl dev
  shardctl logs topics/topic-001 -f --server http://127.0.0.1:8080
  shardctl drain r2 --server http://127.0.0.1:8080
  shardctl dev --replicas 3 --tasks 12 --cap 6
  shardctl dev --app 'python3 worker.py'
  shardctl dev --store '$(SHARDCTL_STORE_URI)'`,
		Args: cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return usage("%w", err)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			err := dev.Run(ctx, o, cmd.OutOrStdout(), terminal())
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
	flags.StringVar(&o.App, "app", "", "command of an application, run by sh: one beside each replica")
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
