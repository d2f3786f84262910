package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/lockcommand"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

func lockCommand() *cobra.Command {
	o := lockOptions{}
	cmd := &cobra.Command{
		Use:   "lock KEY [--config PATH | --store URI] [flags] -- COMMAND…",
		Short: "Run a command under a lock of its own, as flock(1) does, on all machines",
		Long: `Run a command while a lock is held. Waiting commands are served in the order of a queue, on all
machines that use the store. KEY is any text of up to 512 bytes. The store is that of --config, --store or
SHARDCTL_STORE_URI.

COMMAND has SHARDCTL_FENCING_TOKEN, SHARDCTL_KEY (locks/KEY), SHARDCTL_INSTANCE and SHARDCTL_SESSION in its environment,
and not SHARDCTL_STORE_URI or another variable that holds a secret of the store. Send the token along with what it
changes. SIGTERM, SIGINT, SIGHUP and SIGQUIT are passed on to it; while the lock is waited for they end the waiting.
What COMMAND leaves running is killed before the lock is given back. When the lease is lost, or --max-hold is over,
COMMAND gets SIGTERM, and SIGKILL before others may have the lock.

Exit code: COMMAND's own, 128+N when signal N ended it or the waiting; 1, or that of -E: the lock was not obtained, with
no message where others hold it, and the last error of the store where it did not answer; 64: the command line or the
configuration is wrong; 69: COMMAND cannot start; 75: the lease was lost or --max-hold was over, and COMMAND was ended;
78: the store refuses, and would again: rights, its layout, a password, or settings that differ from what it keeps.`,
		Example: `  shardctl lock backup --store '$(file:/etc/shardctl/store-uri)' -- ./backup.sh
  shardctl lock -n nightly-report --config shardctl.yaml -- ./report --day yesterday
  shardctl lock deploy/web -w 5m -E 9 --max-hold 30m -- make deploy
  shardctl lock --shared catalogue -- sh -c './read --token "$SHARDCTL_FENCING_TOKEN"'`,
		Args: o.arguments,
		RunE: o.run,
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return lockUsage(cli.FlagError(cmd, err)) })
	o.addTo(cmd)
	return cmd
}

// lockUsage gives an error in the command line or the configuration the code that flock(1) has for it.
func lockUsage(err error) error {
	if e, ok := errors.AsType[cli.Exit](err); ok && e.Code == cli.CodeUsage {
		return cli.Exit{Code: lockcommand.CodeUsage, Err: e.Err}
	}
	return err
}

// run is the guard's part, or in the process that the guard started, the worker's.
func (o *lockOptions) run(cmd *cobra.Command, args []string) error {
	s, err := o.settings()
	if err != nil {
		return lockUsage(err)
	}
	if wire.IsWorker() {
		ended, err := o.work(cmd.Context(), cli.Shown(cmd.ErrOrStderr()), s, args)
		return errors.Join(err, exit(ended))
	}
	giveBack()
	// The worker says what there is to say. Once it is dead, what keeps the guard here is an error.
	out := newLogs(settings.Log{Level: "error", Format: "console"}, os.Stderr)
	defer out.close()
	db := &guardStore{config: s.StoreConfig(logr.Discard())}
	code, err := guard.Run(cmd.Context(), guard.Config{
		Foreground: true,
		Name:       "lock",
		Log:        out.own,
		Obstructs:  func(pid int) bool { return obstructs(s, pid) },
		MarkDead:   db.markDead,

		KeepSession: db.keepSession,
	})
	return exit(lockcommand.Outcome{Code: code, Err: err})
}

// exit is an outcome as the program's end.
func exit(out lockcommand.Outcome) error {
	if out == (lockcommand.Outcome{}) {
		return nil
	}
	return cli.Exit{Code: out.Code, Err: out.Err}
}

// lockStoreLimit is how long a store that is away is tried: setting one up can take longer than a request may under a
// short lease.
const lockStoreLimit = 10 * time.Second

// work takes the lock and has the guard run the command.
func (o *lockOptions) work(
	ctx context.Context, stderr io.Writer, s *settings.Settings, args []string,
) (lockcommand.Outcome, error) {
	own := lockSignals()
	client, err := worker.Connect()
	if err != nil {
		return lockcommand.Outcome{}, err
	}
	if err := client.Hello(s.Lease.Duration, s.Lease.Duration); err != nil {
		return lockcommand.Outcome{}, err
	}
	r := lockcommand.Run{
		Request: o.request, Command: args[1:], Withheld: s.Store.Withheld, Conflict: o.conflict, Guard: client, Own: own,
		Open: func(ctx context.Context) (store.Store, error) {
			db, err := replica.WaitForStore(
				ctx, lockStoreLimit, func(ctx context.Context) (store.Store, error) {
					return openToRun(ctx, s.StoreConfig(logr.Discard()))
				}, func(error, time.Duration) {},
			)
			if err != nil {
				return nil, err
			}
			return hooked(db), nil
		},
		Elector: elect.Config{
			Member:        elect.Member{Instance: s.Instance},
			LeaseDuration: s.Lease.Duration, RenewDeadline: s.Lease.RenewDeadline,
			Logger: logr.Discard(),
			Inside: electing.Options{Guard: worker.Sessions{Client: client, Log: logr.Discard()}},
		},
	}
	r.Warn = func(text string) {
		_, _ = fmt.Fprintf(stderr, "shardctl lock: %s\n", text) // there is nowhere else to say it
	}
	r.Key = args[0]
	if o.verbose {
		r.Report = func(format string, args ...any) {
			_, _ = fmt.Fprintf(stderr, "shardctl lock: "+format+"\n", args...) // there is nowhere else to report it
		}
	}
	out := r.Do(ctx)
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = client.Close(bye) // without it the guard ends by this process's end
	return out, nil
}

// envStoreURI names the store where the command line does not.
const envStoreURI = "SHARDCTL_STORE_URI"

// lockOptions are the flags of lock.
type lockOptions struct {
	request  lockcommand.Request
	wait     seconds
	conflict int
	verbose  bool

	paths    []string
	store    string
	database string
	cluster  string
	lease    time.Duration
}

func (o *lockOptions) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&o.paths, "config", nil, "configuration file or directory; may be given several times")
	flags.StringVar(
		&o.store, "store", "", "URI of the store, which may hold $(NAME) and $(file:PATH) (default SHARDCTL_STORE_URI)",
	)
	flags.StringVar(&o.database, "database", "", "database of --store; default as in store.database")
	flags.StringVar(&o.cluster, "cluster", "default", "cluster in --store, whose locks are its own")
	cli.DurationFlag(
		flags, &o.lease, "lease", protocol.DefaultLease,
		"with --store: how long others wait for a lock whose machine has died, 1s to 24h",
	)
	flags.VarP(
		&o.wait, "timeout", "w", "how long to wait at most, in seconds or as 500ms, 5m; 0: as -n (default: no limit)",
	)
	flags.BoolVarP(&o.request.NoWait, "nonblock", "n", false, "do not wait for others")
	flags.IntVarP(
		&o.conflict, "conflict-exit-code", "E", lockcommand.CodeNotObtained,
		"exit code when the lock is not obtained, 0 to 255",
	)
	flags.BoolVarP(
		&o.request.Shared, "shared", "s", false, "share it with others that share it; readers do not overtake writers",
	)
	flags.BoolVar(&o.request.Unfair, "unfair", false, "enter before those who wait, where the lock is free")
	cli.DurationFlag(
		flags, &o.request.MaxHold, "max-hold", 0, "end COMMAND when it has held the lock so long; 0: no limit",
	)
	cli.DurationFlag(
		flags, &o.request.AtLeast, "hold-at-least", 0,
		"keep others out so long from the start on, also after COMMAND; advisory, by the store's clock",
	)
	flags.BoolVar(&o.verbose, "verbose", false, "say how long it took to obtain the lock, or why it was not")
}

// arguments checks what is on the command line.
func (o *lockOptions) arguments(cmd *cobra.Command, args []string) error {
	return lockUsage(o.check(cmd, args))
}

func (o *lockOptions) check(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return usage("KEY: required, before --; see shardctl lock --help")
	case dash < 0:
		return usage("COMMAND: required, after --: shardctl lock %s -- COMMAND", strconv.Quote(args[0]))
	case dash > 1:
		return usage("%q: only KEY stands before --; see shardctl lock --help", args[1])
	case len(args) == 1 || args[1] == "":
		return usage("COMMAND: required, after --, and not empty")
	}
	if err := elect.CheckMutexName(args[0]); err != nil {
		return usage("KEY: %w", err)
	}
	if err := o.checkStore(cmd); err != nil {
		return err
	}
	return o.checkRequest()
}

// checkStore checks what says where the lock is.
func (o *lockOptions) checkStore(cmd *cobra.Command) error {
	if len(o.paths) > 0 {
		for _, name := range []string{"store", "database", "cluster", "lease"} {
			if cmd.Flags().Changed(name) {
				return usage("--%s: does not go with --config, which says it", name)
			}
		}
		return nil
	}
	if o.store == "" && os.Getenv(envStoreURI) == "" {
		return usage("--store: required, or --config, or %s in the environment", envStoreURI)
	}
	if o.lease < time.Second || o.lease > 24*time.Hour {
		return usage("--lease %v: want 1s to 24h", o.lease)
	}
	return nil
}

// checkRequest checks what says how the lock is taken.
func (o *lockOptions) checkRequest() error {
	switch {
	case o.wait.set && o.request.NoWait:
		return usage("--timeout: does not go with --nonblock, which does not wait")
	case o.wait.value < 0:
		return usage("--timeout %v: must not be negative", o.wait.value)
	case o.conflict < 0 || o.conflict > 255:
		return usage("--conflict-exit-code %d: want 0 to 255", o.conflict)
	case o.request.MaxHold < 0:
		return usage("--max-hold %v: must not be negative", o.request.MaxHold)
	case o.request.AtLeast < 0:
		return usage("--hold-at-least %v: must not be negative", o.request.AtLeast)
	case o.request.AtLeast > 0 && o.request.Shared:
		return usage("--hold-at-least: does not go with --shared: only a holder that is alone can keep others out")
	}
	o.request.Timeout = o.wait.value
	o.request.NoWait = o.request.NoWait || o.wait.set && o.wait.value == 0
	return nil
}

// settings are what a configuration says of the store, or the flags.
func (o *lockOptions) settings() (*settings.Settings, error) {
	if len(o.paths) > 0 {
		s, err := load(o.paths)
		if err != nil {
			return nil, err
		}
		return &settings.Settings{
			Cluster: s.Cluster, Self: settings.Self{Instance: s.Instance}, Store: s.Store, Lease: s.Lease,
		}, nil
	}
	uri := cmp.Or(o.store, os.Getenv(envStoreURI))
	c, err := storeConfig(uri, o.database, o.cluster)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this machine: %w", err)
	}
	return &settings.Settings{
		Cluster: c.Cluster, Self: settings.Self{Instance: host}, Lease: settings.Lease{Duration: o.lease},
		Store: settings.Store{
			URI: c.URI, Renew: c.Renew, Database: c.Database, Withheld: config.SecretVariables(uri, os.LookupEnv),
		},
	}, nil
}

// seconds is a duration that may be written as flock(1) takes it, as a number of seconds.
type seconds struct {
	value time.Duration
	set   bool
}

func (s *seconds) String() string {
	if !s.set {
		return ""
	}
	return s.value.String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		if v, err = time.ParseDuration(text + "s"); err != nil {
			return errors.New("want seconds such as 10 or 0.5, or a duration such as 500ms, 20s or 5m")
		}
	}
	s.value, s.set = v, true
	return nil
}
