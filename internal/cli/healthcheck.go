package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func healthcheckCommand(g *Globals) *cobra.Command {
	var timeout time.Duration
	cmd := finish(&cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the replica on this machine whether it is alive: exit code 0 or 1",
		Long: `Ask the replica on this machine whether its process answers: exit code 0 or 1. It is meant for the health check of a
container. A replica whose store is unreachable is alive.`,
		Example: "  shardctl healthcheck\n  shardctl healthcheck --server http://127.0.0.1:8080 --timeout 2s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := healthcheck(g, cmd, timeout); err != nil {
				return Exit{CodeNo, fmt.Errorf("not healthy: %w", err)}
			}
			return nil
		},
	})
	g.AddFlags(cmd)
	// A container's health check knows 0 and 1 only; 2 is reserved there.
	cmd.Args = cobra.NoArgs
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Exit{CodeNo, err} })
	DurationFlag(cmd.Flags(), &timeout, "timeout", 5*time.Second, "how long the replica may take to answer")
	return cmd
}

func healthcheck(g *Globals, cmd *cobra.Command, timeout time.Duration) error {
	client, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	return g.explain(cmd, client, client.Livez(ctx))
}
