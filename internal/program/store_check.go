package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/storecheck"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// storeTimeout is how long a check may take, unless --timeout says otherwise.
const storeTimeout = time.Minute

type storeCheckOptions struct {
	database, cluster string
	output            cli.Output
	paths             []string
	readOnly          bool
	timeout           time.Duration
}

func storeCheckCommand() *cobra.Command {
	var o storeCheckOptions
	cmd := &cobra.Command{
		Use:   "check [URI]",
		Short: "Show what a store is, how fast it answers, and what is missing for the promises",
		Long: `Connect to a store as a replica would, and show its version, the settings that promises hang ` +
			`on, how far its clock is
from this machine's, how long reads, durable writes and notifications take, which lease is long enough for that, and
what is missing. Without URI it is that of --config, or of SHARDCTL_STORE_URI.

It makes the cluster's tables or collections where there are none, and writes documents of its own that no replica acts
on. It removes these documents. With --read-only no document is made or written.

Exit code 0: all promises are kept; 1: one is not, or the store was not reached; 2: the URI, the log-in, the rights or
the database's layout is wrong.`,
		Example: `  shardctl store check sqlite:/var/lib/shardctl/locks.db
  shardctl store check 'mongodb://app:$(PASSWORD)@db-0,db-1,db-2/shardctl?replicaSet=rs0'
  shardctl store check --config shardctl.yaml -o json`,
		Args: cli.Arguments(cobra.MaximumNArgs(1)),
		RunE: o.run,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.paths, "config", nil, "check the store of this configuration")
	flags.StringVar(&o.database, "database", "", "database of the server; default as in store.database")
	flags.StringVar(&o.cluster, "cluster", "", "cluster whose documents to look at (default default)")
	flags.BoolVar(&o.readOnly, "read-only", false, "make and write no document, and measure reads alone")
	cli.DurationFlag(flags, &o.timeout, "timeout", storeTimeout, "how long it may take")
	cli.OutputFlag(cmd, &o.output)
	return cmd
}

func (o *storeCheckOptions) run(cmd *cobra.Command, args []string) error {
	if o.timeout <= 0 {
		return usage("--timeout %s: want above 0", o.timeout)
	}
	c, err := o.config(args)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	found, err := storecheck.Check(ctx, storecheck.Options{Config: c, ReadOnly: o.readOnly})
	if err != nil {
		return storeFailed(err)
	}
	if o.output.Table() {
		err = writeCheck(cli.Shown(cmd.OutOrStdout()), found)
	} else {
		err = o.output.Write(cmd.OutOrStdout(), found)
	}
	if err == nil && !found.Holds {
		err = cli.Exit{Code: cli.CodeNo}
	}
	return err
}

// config is the store that the command line names, in one of its ways.
func (o *storeCheckOptions) config(args []string) (store.Config, error) {
	switch {
	case len(o.paths) > 0 && (len(args) > 0 || o.database != "" || o.cluster != ""):
		return store.Config{}, usage("--config names the store, its database and its cluster: leave out the others")
	case len(o.paths) > 0:
		s, err := load(o.paths)
		if err != nil {
			return store.Config{}, err
		}
		return s.StoreConfig(logr.Discard()), nil
	case len(args) > 0:
		return storeConfig(args[0], o.database, o.cluster)
	}
	uri := os.Getenv(envStoreURI)
	if uri == "" {
		return store.Config{}, usage("name a store: %s; or give --config, or set %s", driver.Forms(), envStoreURI)
	}
	return storeConfig(uri, o.database, o.cluster)
}

// writeCheck shows a result to people.
func writeCheck(out io.Writer, r storecheck.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	line("store\t%s", r.Store)
	line("cluster\t%s", r.Cluster)
	line("server\t%s", cmp.Or(r.Server, r.Driver))
	line("clock\t%s", clockText(r.ClockAheadSeconds))
	if r.Connections != nil {
		line("connections\t%d", *r.Connections)
	}
	if len(r.Settings) > 0 {
		line("\nSETTING\tVALUE\tWANTED\t")
		for _, s := range r.Settings {
			line("%s\t%s\t%s\t%s", s.Name, s.Value, cmp.Or(s.Want, "-"), verdictOf(s))
		}
	}
	line("\nLATENCY\tP50\tMAX\tSAMPLES")
	line("read\t%s", latencyText(r.Read))
	line("durable write\t%s", latencyText(r.Write))
	if r.Polled {
		line("notification\tnone: replicas ask at intervals")
	} else {
		line("notification\t%s", latencyText(r.Notification))
	}
	line("lease from\t%v", time.Duration(r.LeaseFromSeconds*float64(time.Second)))
	errs = append(errs, w.Flush())
	if r.Holds {
		_, err := fmt.Fprintln(out, "\nok: nothing is missing for the promises")
		errs = append(errs, err)
	}
	errs = append(
		errs, writeProblems(out, "missing for the promises", r.Problems, true),
		writeProblems(out, "worth knowing", r.Problems, false),
	)
	return errors.Join(errs...)
}

// writeProblems shows those that break a promise, or those that do not, under a title; nothing when there is none.
func writeProblems(out io.Writer, title string, all []storecheck.Problem, promise bool) error {
	var text strings.Builder
	for _, p := range all {
		if p.Promise == promise {
			fmt.Fprintf(&text, "  %s: %s\n", p.Reason, p.Message)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\n%s:\n%s", title, text.String())
	return err
}

func verdictOf(s store.Setting) string {
	switch {
	case !s.Holds:
		return "WRONG"
	case s.Want == "":
		return ""
	}
	return "ok"
}

func clockText(ahead float64) string {
	d := time.Duration(ahead * float64(time.Second)).Round(time.Millisecond)
	switch {
	case d > 0:
		return d.String() + " ahead of this machine's"
	case d < 0:
		return (-d).String() + " behind this machine's"
	}
	return "as this machine's"
}

func latencyText(l storecheck.Latency) string {
	if l.Samples == 0 {
		return "not measured"
	}
	ms := func(s float64) string { return strconv.FormatFloat(s*1000, 'f', 2, 64) + " ms" }
	return fmt.Sprintf("%s\t%s\t%d", ms(l.P50Seconds), ms(l.MaxSeconds), l.Samples)
}
