package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func validateCommand() *cobra.Command {
	var printed bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check a configuration and report everything that is wrong with it",
		Args:  arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			s, err := load(paths)
			if err != nil {
				return err
			}
			if printed {
				return s.Print(cmd.OutOrStdout())
			}
			_, err = fmt.Fprintf(
				cmd.OutOrStdout(), "ok: %s in %s\n", count(s.Tasks(), "task"), count(len(s.Groups), "group"),
			)
			return err
		},
	}
	cmd.Flags().BoolVar(&printed, "print", false, "print the effective configuration: braces expanded, secrets masked")
	return cmd
}
