package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/pkg/elect/quorumstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// readmitTimeout is how long a re-admission may take, unless --timeout says otherwise.
const readmitTimeout = 10 * time.Minute

type storeReadmitOptions struct {
	cluster string
	timeout time.Duration
}

func storeReadmitCommand() *cobra.Command {
	var o storeReadmitOptions
	cmd := &cobra.Command{
		Use:   "readmit URI INDEX",
		Short: "Take a server back into a quorum that lost its disk",
		Long: `Take a server back into a quorum that lost its disk. Until then it does not count, however it answers. INDEX is its
place in the URI, from 1. The server must run and be empty. A backup of it must not be used: it has forgotten what the
server acknowledged since.

All documents that the other servers have are decided again, and copied to it. More than half of all servers must count
without it. Replicas may run. Where it was cut off, run it again.

Exit code 0: it counts again; 1: too few servers answer; 2: the server did not lose its disk, is not empty, or the URI
is wrong.`,
		Example: `  shardctl store readmit 'quorum:redis://a,redis://b,redis://c' 2
  shardctl store readmit '$(STORE_URI)' 3 --cluster blue`,
		Args: arguments(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.cluster, "cluster", "", "cluster whose documents to copy (default default)")
	cli.DurationFlag(flags, &o.timeout, "timeout", readmitTimeout, "how long it may take")
	return cmd
}

func (o *storeReadmitOptions) run(cmd *cobra.Command, uri, place string) error {
	if o.timeout <= 0 {
		return usage("--timeout %s: want above 0", o.timeout)
	}
	c, err := storeConfig(uri, "", o.cluster)
	if err != nil {
		return err
	}
	index, err := strconv.Atoi(place)
	if err != nil || index < 1 {
		return usage("INDEX is %.20q, must be the server's place in the URI, from 1", place)
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	side, err := openSide(ctx, c)
	if err != nil {
		return storeFailed(err)
	}
	defer closeSide(ctx, side)
	q, ok := side.Store.(*quorumstore.Store)
	if !ok {
		return usage("the store's URI names no quorum, must be quorum:URI,URI,URI")
	}
	var copied strings.Builder
	w := tabwriter.NewWriter(&copied, 0, 0, 3, ' ', 0)
	err = q.Readmit(ctx, index-1, func(kind store.Kind, documents int) {
		_, _ = fmt.Fprintf(w, "  %s\t%d\n", kind, documents) // into memory
	})
	if err != nil {
		return storeFailed(err)
	}
	_ = w.Flush()
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "server %d counts again; documents:\n%s", index, copied.String())
	return err
}
