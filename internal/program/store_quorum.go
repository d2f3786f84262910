package program

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

// How long a set-up or a re-admission may take, unless --timeout says otherwise.
const (
	initTimeout    = time.Minute
	readmitTimeout = 10 * time.Minute
)

// storeQuorumOptions are the flags of commands about a quorum.
type storeQuorumOptions struct {
	cluster string
	timeout time.Duration
}

func (o *storeQuorumOptions) add(cmd *cobra.Command, timeout time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "cluster of the documents (default default)")
	cli.DurationFlag(flags, &o.timeout, "timeout", timeout, "how long it may take")
}

// store is the configuration of the store that a URI names. The context ends with the time-out, or with a signal.
func (o *storeQuorumOptions) store(
	ctx context.Context, uri string,
) (context.Context, context.CancelFunc, store.Config, error) {
	if o.timeout <= 0 {
		return nil, nil, store.Config{}, usage("--timeout %s: want above 0", o.timeout)
	}
	c, err := storeConfig(uri, "", o.cluster)
	if err != nil {
		return nil, nil, c, err
	}
	ctx, stop := interruptible(ctx)
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	return ctx, func() { cancel(); stop() }, c, nil
}

func storeInitCommand() *cobra.Command {
	var o storeQuorumOptions
	cmd := &cobra.Command{
		Use:   "init URI",
		Short: "Say that a quorum or a Redis is new, once",
		Long: `Say that a store is new, once, before the first replica starts. Replicas never do this themselves: a ` +
			`server that has
lost its disk looks like a new one. Where it was cut off, run it again.

A quorum cannot be used before. Each server is given an identity, which says its place in the URI. All servers must
answer and be empty.

A Redis can. But replicas that find it empty wait for one lease before they claim, and after this command they claim at
once. It refuses a database with sessions or locks. Never run it where a Redis has lost its data, or one took the place
of another, within the last lease: keys that still run would run twice.

Other stores need no such command.

Exit code 0: it is set up, by this run or before; 1: a server does not answer; 2: a server is not new, or has lost its
disk, or the URI is wrong.`,
		Example: `  shardctl store init 'quorum:redis://a,redis://b,redis://c'
  shardctl store init 'redis+sentinel://s-0,s-1,s-2/shardctl?nodes=3'
  shardctl store init '$(STORE_URI)' --cluster blue`,
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop, c, err := o.store(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer stop()
			made, err := store.Init(ctx, c)
			if err != nil {
				return storeFailed(err)
			}
			says := "the store was set up before: nothing to do\n"
			if made {
				says = "the store is set up\n"
			}
			_, err = fmt.Fprint(cli.Shown(cmd.OutOrStdout()), says)
			return err
		},
	}
	o.add(cmd, initTimeout)
	return cmd
}

func storeReadmitCommand() *cobra.Command {
	var o storeQuorumOptions
	cmd := &cobra.Command{
		Use:   "readmit URI INDEX",
		Short: "Take a server back into a quorum that lost its disk",
		Long: `Take a server back into a quorum that lost its disk. Until then it does not count, however it ` +
			`answers. INDEX is its
place in the URI, from 1. The server must run and be empty. A backup of it must not be used: it has forgotten what the
server acknowledged since.

All documents of the other servers are decided again, and accepted by it. More than half of all servers must count
without it. Replicas may run. Where it was cut off, run it again.

Exit code 0: it counts again; 1: too few servers answer; 2: the server did not lose its disk, is not empty, or the URI
is wrong.`,
		Example: `  shardctl store readmit 'quorum:redis://a,redis://b,redis://c' 2
  shardctl store readmit '$(STORE_URI)' 3 --cluster blue`,
		Args: cli.Arguments(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.readmit(cmd, args[0], args[1]) },
	}
	o.add(cmd, readmitTimeout)
	return cmd
}

func (o *storeQuorumOptions) readmit(cmd *cobra.Command, uri, place string) error {
	ctx, stop, c, err := o.store(cmd.Context(), uri)
	if err != nil {
		return err
	}
	defer stop()
	if !strings.HasPrefix(c.URI, "quorum:") {
		return usage("the store's URI names no quorum, must be quorum:URI,URI,URI")
	}
	index, err := strconv.Atoi(place)
	if err != nil || index < 1 {
		return usage("INDEX is %.20q, must be the server's place in the URI, from 1", place)
	}
	side, err := openSide(ctx, c)
	if err != nil {
		return storeFailed(err)
	}
	defer closeSide(ctx, side)
	q := side.Store.(*quorum.Store) //nolint:forcetypeassert // the URI says so
	var decided strings.Builder
	w := tabwriter.NewWriter(&decided, 0, 0, 3, ' ', 0)
	err = q.Readmit(ctx, index-1, func(kind driver.Kind, documents int) {
		_, _ = fmt.Fprintf(w, "  %s\t%d\n", kind, documents) // into memory
	})
	if err != nil {
		return storeFailed(err)
	}
	_ = w.Flush()
	_, err = fmt.Fprintf(cli.Shown(cmd.OutOrStdout()), "server %d counts again; documents:\n%s", index, decided.String())
	return err
}
