// Command shardctl spreads named tasks over the replicas of a service. Each task runs on exactly one of them, under a
// cap, and moves when replicas come, go or die.
package main

import (
	"context"
	"os"
	"strings"
	_ "time/tzdata" // schedules name time zones; an image from scratch has none

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	return cli.Report(os.Stderr, root.ExecuteContext(ctx))
}

// knownCommand refuses arguments that are no command.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return usage("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usage("there is no command %q; see %s --help", args[0], root.CommandPath())
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "shardctl",
		Short: "Run each of many named tasks on exactly one of several replicas",
		Long: "shardctl spreads named tasks over the replicas of a service: each runs on exactly one of them, under " +
			"a cap, and\n" +
			"moves when replicas come, go or die. Start with: shardctl dev",
		SilenceErrors: true, SilenceUsage: true,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(
		cmd *cobra.Command, err error,
	) error {
		return usage("%w; see %s --help", err, cmd.CommandPath())
	})
	globals := &cli.Globals{Offline: offline}
	root.AddCommand(runCommand(), devCommand(), validateCommand(), planCommand(), versionCommand())
	root.AddCommand(cli.Commands(globals)...)
	return root
}
