package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
)

// usage is an error in the command line or the configuration.
func usage(format string, args ...any) error {
	return cli.Exit{Code: cli.CodeUsage, Err: fmt.Errorf(format, args...)}
}

// arguments makes a wrong number of arguments a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("%w; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}
