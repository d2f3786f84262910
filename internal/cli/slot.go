package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/pkg/client"
	pkgtasks "github.com/shardctl/shardctl/pkg/tasks"
)

func slotCommand(g *Globals) *cobra.Command {
	var o getOptions
	cmd := finish(&cobra.Command{
		Use:   "slot GROUP KEY",
		Short: "Show the slot that a key has, and which instance owns it",
		Long: `Show the task that is the slot of a key, any text, in a group with slots: its state, and the instance ` +
			`that owns it.
Every key of the group has a slot, also one that nobody uses.` + staleHelp,
		Example: `  shardctl slot tenants acme
  shardctl slot tenants acme -o name
  shardctl slot tenants acme -o jsonpath=.instance`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("name a group and a key; `shardctl get groups` lists the groups there are")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return g.complete(lists["groups"].names)(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			replica, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			slot, err := slotOf(cmd.Context(), replica, args[0], args[1])
			if err == nil {
				err = lists["tasks"].get(cmd.Context(), &request{
					globals: g, client: replica, options: o, output: &o.output, names: []string{slot},
					out: cmd.OutOrStdout(), note: cmd.ErrOrStderr(),
				})
			}
			return g.explain(cmd, replica, err)
		},
	})
	g.addReading(cmd, staleWarn)
	outputFlag(cmd, &o.output, formatTable, formatWide, formatJSON, formatYAML, formatName, formatPath)
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave out the first line")
	return cmd
}

// slotOf is the task that is the slot of a key, as GROUP/NAME.
func slotOf(ctx context.Context, c *client.Client, group, key string) (string, error) {
	g, err := c.Groups().Get(ctx, group)
	if err != nil {
		return "", suggest(ctx, c, lists["groups"].names, group, err)
	}
	if g.Slots == 0 {
		return "", fmt.Errorf("group %q has no slots", group)
	}
	return pkgtasks.SlotKey(group, key, g.Slots), nil
}
