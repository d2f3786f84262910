// Package program is the shardctl command line: it assembles the commands and runs one of them.
package program

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	_ "time/tzdata" // schedules name time zones; an image from scratch has none

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Options distinguish a program from others that are made of this package.
type Options struct {
	// Version and Revision are shown by the version command, in metrics and on the page. An empty Revision is taken
	// from what the Go toolchain recorded.
	Version, Revision string
	// Callbacks and Listers are the Go functions that configurations may name; nil means none.
	Callbacks *tasks.Registry
	Listers   discover.Functions
}

// options are set by Main before the command line runs, and do not change afterwards.
var options = Options{Version: "dev"}

// Main runs the command line of this process and exits with its code. A replica starts its executable a second time,
// with the same arguments, so Main must be reached whenever the executable runs.
func Main(o Options) {
	options = o
	os.Exit(run(context.Background(), os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	return cli.Report(os.Stderr, root.ExecuteContext(ctx))
}

// knownCommand refuses arguments that are no command.
func knownCommand(parent *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(args[0]); len(near) > 0 {
		return usage("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usage("there is no command %q; see %s --help", args[0], parent.CommandPath())
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "shardctl",
		Short: "Run each of many named tasks on exactly one of several replicas",
		Long: "shardctl spreads named tasks over the replicas of a service: each runs on exactly one of them, under " +
			"a cap, and\n" +
			"moves when replicas come, go or die. Start with: shardctl dev\n\n" +
			"Commands ask a replica: --server, SHARDCTL_SERVER, or http://127.0.0.1:8081. A token, where one is " +
			"asked " +
			"for, is in\n" +
			"--token-file, SHARDCTL_ADMIN_TOKEN_FILE or SHARDCTL_ADMIN_TOKEN. Without a replica most of them take " +
			"--config.\n" +
			"NO_COLOR turns colours off.\n\n" +
			"Exit codes: 0 done; 1 it failed, or the answer is no; 2 the command line or a configuration is wrong.\n" +
			"run and lock have more: see their help.",
		SilenceErrors: true, SilenceUsage: true,
		Example: `  shardctl dev
  shardctl run --config shardctl.yaml
  shardctl status -w
  shardctl describe task topics/topic-001`,
		Version: build().String(),
		Args:    knownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRun: func(cmd *cobra.Command, _ []string) { outliveReaders(cmd) },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetVersionTemplate("{{.Version}}\n")
	globals := &cli.Globals{Offline: offline, Past: past, Change: changeStore}
	root.AddCommand(runCommand(), devCommand(), lockCommand(), validateCommand(), planCommand(), storeCommand(),
		versionCommand())
	root.AddCommand(cli.Commands(globals)...)
	checkShells(root)
	arrange(root)
	return root
}

// checkShells has completion refuse shells that it does not know.
func checkShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = knownCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// arrange puts the commands of the help under titles.
func arrange(root *cobra.Command) {
	var changes strings.Builder
	for _, verb := range verbs.All() {
		changes.WriteString(string(verb.Name) + " ")
	}
	for _, part := range []struct{ title, commands string }{
		{"Run", "run dev lock"},
		{"Check a configuration", "validate plan"},
		{"Look after the store", "store"},
		{"Look", "status get describe logs slot wait"},
		{"Change a running cluster", changes.String()},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title + ":"})
		for name := range strings.FieldsSeq(part.commands) {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = part.title
				}
			}
		}
	}
}

// usage is an error in the command line or the configuration.
func usage(format string, args ...any) error {
	return cli.Exit{Code: cli.CodeUsage, Err: fmt.Errorf(format, args...)}
}

// commit is the revision that the program was built from, as far as the build knows.
func commit() string {
	if options.Revision != "" {
		return options.Revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

// about is what is known of this program.
type about struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"` // OS/ARCHITECTURE
}

func build() about {
	return about{options.Version, commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is one line.
func (a about) String() string {
	return fmt.Sprintf("shardctl %s (revision %s, %s, %s)", a.Version, a.Revision, a.GoVersion, a.Platform)
}

func versionCommand() *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.Arguments(cobra.NoArgs),
		Example: "  shardctl version\n  shardctl version -o jsonpath=.version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Table() {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
				return err
			}
			return o.Write(cmd.OutOrStdout(), build())
		},
	}
	cli.OutputFlag(cmd, &o)
	return cmd
}
