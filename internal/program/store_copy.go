package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/store"
)

type storeCopyOptions struct {
	database, toDatabase string
	cluster, toCluster   string
	output               cli.Output
	undo                 bool
}

func storeCopyCommand() *cobra.Command {
	var o storeCopyOptions
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Move a stopped cluster's documents to another store, without a token ever going back",
		Long: `Move a stopped cluster's documents to another store. Stop all replicas first: the copy waits ` +
			`for as long as the longest
lease to see that none sends heartbeats, and refuses when one does. The target must be empty.

First FROM is marked: no replica runs a task there any more, whenever it starts. Then everything is copied with its
revisions, which are the fencing tokens, and both sides are compared. Only then may replicas run on TO. Where the copy
was cut off, run it again: it goes on. With --undo it is given up instead, and replicas may run on FROM again.

A document at FROM that somebody has edited, so that it cannot be read, is not left out. The copy is refused before FROM
is marked. It names each such document with its kind, its ID and what is wrong. Repair or remove them, and copy again.

Exit code 0: all is moved; 1: it is not; 2: a URI, a log-in, a right or a layout is wrong.`,
		Example: `  shardctl store copy 'mongodb://db-0/shardctl?replicaSet=rs0' sqlite:/var/lib/shardctl/locks.db
  shardctl store copy '$(OLD_STORE_URI)' '$(NEW_STORE_URI)' --cluster blue
  shardctl store copy '$(OLD_STORE_URI)' '$(NEW_STORE_URI)' --undo`,
		Args: cli.Arguments(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.database, "database", "", "database of FROM; default as in store.database")
	flags.StringVar(&o.toDatabase, "to-database", "", "database of TO; default as in store.database")
	flags.StringVar(&o.cluster, "cluster", "", "cluster to move (default default)")
	flags.StringVar(&o.toCluster, "to-cluster", "", "what it is called at TO; default as at FROM")
	flags.BoolVar(&o.undo, "undo", false, "give up a copy that was cut off: replicas may run on FROM again")
	cli.OutputFlag(cmd, &o.output)
	return cmd
}

func (o *storeCopyOptions) run(cmd *cobra.Command, fromURI, toURI string) error {
	from, err := storeConfig(fromURI, o.database, o.cluster)
	if err != nil {
		return err
	}
	to, err := storeConfig(toURI, o.toDatabase, cmp.Or(o.toCluster, o.cluster))
	if err != nil {
		return err
	}
	from.Existing = true
	if from.URI == to.URI && from.Database == to.Database && from.Cluster == to.Cluster {
		return usage("FROM and TO are the same store: name another database or --to-cluster")
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	source, err := openSide(ctx, from)
	if err != nil {
		return storeFailed(err)
	}
	defer closeSide(ctx, source)
	target, err := openSide(ctx, to)
	if err != nil {
		return storeFailed(err)
	}
	defer closeSide(ctx, target)
	options := storecopy.Options{From: source, To: target, Progress: progressTo(cli.Shown(cmd.ErrOrStderr()))}
	if o.undo {
		if err := storecopy.Undo(ctx, options); err != nil {
			return copyFailed(ctx, err)
		}
		_, err := fmt.Fprintf(cli.Shown(cmd.OutOrStdout()), "replicas may run on %s again\n", source.Name)
		return err
	}
	report, err := storecopy.Copy(ctx, options)
	if err != nil {
		return copyFailed(ctx, err)
	}
	if !o.output.Table() {
		return o.output.Write(cmd.OutOrStdout(), report)
	}
	return writeCopy(cli.Shown(cmd.OutOrStdout()), report)
}

func openSide(ctx context.Context, c store.Config) (storecopy.Side, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	db, err := store.Open(ctx, c)
	return storecopy.Side{Store: db, Name: shownStore(c)}, err
}

func closeSide(ctx context.Context, s storecopy.Side) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.Close(ctx) // everything that mattered is acknowledged
}

// progressTo prints the steps, which take a while, where they do not get into what programs read.
func progressTo(w io.Writer) func(string) {
	return func(step string) { _, _ = fmt.Fprintln(w, step) }
}

// copyFailed says how to go on where marks were left.
func copyFailed(ctx context.Context, err error) error {
	interrupted := ctx.Err() != nil
	if interrupted {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if errors.Is(err, storecopy.ErrUnfinished) {
		err = fmt.Errorf("%w: run the same command again to go on, or with --undo to give up", err)
	}
	if interrupted {
		return err
	}
	return storeFailed(err)
}

func writeCopy(w io.Writer, r storecopy.Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "moved from %s\n  to       %s\n", r.From, r.To)
	for _, kind := range slices.Sorted(maps.Keys(r.Documents)) {
		fmt.Fprintf(&text, "  %-10s %d\n", kind, r.Documents[kind])
	}
	if len(r.Documents) > 0 {
		fmt.Fprintf(&text, "every new token of a key is above its last one; none was above %d\n", r.Floor)
	}
	text.WriteString("No replica runs tasks at the source any more. Start replicas with the new store.\n" +
		"Programs older than shardctl store copy do not know this: remove their access to the source.\n")
	_, err := io.WriteString(w, text.String())
	return err
}
