package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/config"
)

// discovering are the names of the groups that make tasks of what exists.
func discovering(s *config.Settings) []string {
	var names []string
	for _, g := range s.Groups {
		if g.Discover != nil {
			names = append(names, g.Name)
		}
	}
	return names
}

func validateCommand() *cobra.Command {
	var printed bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check a configuration and report everything that is wrong with it",
		Long: `Check files and directories of configuration, as run would read them, and report everything that is wrong at once:
FILE:LINE:COL: field: what is wrong, what is allowed. The path - is standard input. No store is asked.

Exit code 0: it is good; 2: it is not. What is allowed and probably not meant is a warning, and leaves it at 0.`,
		Example: `  shardctl validate shardctl.yaml
  shardctl validate --print conf.d/
  sed s/20s/10s/ shardctl.yaml | shardctl validate -`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a file or a directory, or - for standard input")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, paths []string) error {
			options := configOptions()
			options.Stdin = cmd.InOrStdin()
			s, err := loadWith(paths, options)
			if err != nil {
				return err
			}
			for _, warning := range s.Warnings {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", warning) // the exit code counts
			}
			if printed {
				return s.Print(cmd.OutOrStdout())
			}
			more := ""
			if names := discovering(s); len(names) > 0 {
				more = ", and those that are discovered for " + strings.Join(names, ", ")
			}
			_, err = fmt.Fprintf(
				cmd.OutOrStdout(), "ok: %s in %s%s\n", count(s.Tasks(), "task"), count(len(s.Groups), "group"), more,
			)
			return err
		},
	}
	cmd.Flags().BoolVar(&printed, "print", false, "print the effective configuration: braces expanded, secrets masked")
	return cmd
}
