package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/lockcommand"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

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
func (o *lockOptions) settings() (*config.Settings, error) {
	if len(o.paths) > 0 {
		s, err := load(o.paths)
		if err != nil {
			return nil, err
		}
		return &config.Settings{
			Cluster: s.Cluster, Self: config.Self{Instance: s.Instance}, Store: s.Store, Lease: s.Lease,
		}, nil
	}
	c, err := storeConfig(cmp.Or(o.store, os.Getenv(envStoreURI)), o.database, o.cluster)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this machine: %w", err)
	}
	return &config.Settings{
		Cluster: c.Cluster, Self: config.Self{Instance: host}, Store: config.Store{URI: c.URI, Database: c.Database},
		Lease: config.Lease{Duration: o.lease},
	}, nil
}

// seconds is a duration that may be written as flock(1) takes it, as a number of seconds.
type seconds struct {
	value time.Duration
	set   bool
}

// String implements [pflag.Value].
func (s *seconds) String() string {
	if !s.set {
		return ""
	}
	return s.value.String()
}

// Type implements [pflag.Value].
func (s *seconds) Type() string { return "duration" }

// Set implements [pflag.Value].
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
