package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/frugal"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/lockcommand"
	"github.com/shardctl/shardctl/internal/replica"
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
and not SHARDCTL_STORE_URI. Send the token along with what it changes. SIGTERM, SIGINT, SIGHUP and SIGQUIT are passed on
to it; while the lock is waited for they end the waiting. What COMMAND leaves running is killed before the lock is given
back. When the lease is lost, or --max-hold is over, COMMAND gets SIGTERM, and SIGKILL before others may have the lock.

Exit code: COMMAND's own, 128+N when signal N ended it or the waiting; 1, or that of -E: the lock was not obtained, with
no message where others hold it; 64: the command line or the configuration is wrong; 69: COMMAND cannot start; 75: the
lease was lost or --max-hold was over, and COMMAND was ended.`,
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
	if guard.Present() {
		out, err := o.work(cmd.Context(), cmd.ErrOrStderr(), s, args)
		return errors.Join(err, exit(out))
	}
	frugal.Rest()
	db := &guardStore{config: replica.StoreConfig(s, logr.Discard())}
	code, err := guard.Run(cmd.Context(), guard.Config{
		Foreground: true,
		Name:       "lock",
		Log:        logr.Discard(), // the worker says what there is to say
		Obstructs:  func(pid int) bool { return replica.Obstructs(s, pid) },
		MarkDead:   db.markDead,
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
	ctx context.Context, stderr io.Writer, s *config.Settings, args []string,
) (lockcommand.Outcome, error) {
	own := lockSignals()
	client, err := guard.Connect()
	if err != nil {
		return lockcommand.Outcome{}, err
	}
	if err := client.Hello(s.Lease.Duration, s.Lease.Duration); err != nil {
		return lockcommand.Outcome{}, err
	}
	r := lockcommand.Run{
		Request: o.request, Command: args[1:], Conflict: o.conflict, Guard: client, Own: own,
		Open: func(ctx context.Context) (store.Store, error) {
			db, err := replica.WaitForStore(
				ctx, lockStoreLimit, func(ctx context.Context) (store.Store, error) {
					return openToRun(ctx, replica.StoreConfig(s, logr.Discard()))
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
			Guard: guard.Sessions{Client: client, Log: logr.Discard()}, Logger: logr.Discard(),
		},
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

// lockSignals are the signals to this process that say something about those to its guard. Others that a terminal sends
// to the whole group are taken and left unread: this process goes on while the command is stopped.
func lockSignals() <-chan os.Signal {
	own := make(chan os.Signal, 16)
	guard.NotifyUnlessIgnored(own, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	return own
}
