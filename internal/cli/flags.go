package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardctl/shardctl/internal/decode"
)

// FlagError is a usage error about a flag. It names the flag that was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	if exit, ok := errors.AsType[Exit](err); ok { // the value says all there is to say
		return exit
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if near := decode.Nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
			return usage("%w; did you mean --%s?", err, near)
		}
	}
	return usage("%w; see %s --help", err, cmd.CommandPath())
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// DurationFlag adds a flag for a duration.
func DurationFlag(fs *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	fs.Var((*duration)(to), name, usage)
}

// positiveFlag adds a flag for a duration that is not 0 where it is given.
func positiveFlag(fs *pflag.FlagSet, to *time.Duration, name, usage string) {
	fs.Var((*positiveDuration)(to), name, usage)
}

// positiveDuration is a [duration] above 0.
type positiveDuration time.Duration

func (d *positiveDuration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *positiveDuration) Type() string { return "duration" }

func (d *positiveDuration) Set(text string) error {
	if err := (*duration)(d).Set(text); err != nil {
		return err
	}
	if *d <= 0 {
		return errors.New("want a duration above 0, such as 90s or 2h")
	}
	return nil
}

// duration is a [pflag.Value] with an error that says how to write one.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		if _, number := strconv.ParseFloat(text, 64); number == nil {
			return errors.New("add a unit: " + text + "s")
		}
		return errors.New("want a duration such as 500ms, 20s, 5m or 1h30m")
	}
	*d = duration(v)
	return nil
}

// since is a [pflag.Value] for how long ago, or a moment.
type since struct {
	ago time.Duration
	at  time.Time
}

func (s *since) String() string {
	switch {
	case !s.at.IsZero():
		return s.at.Format(time.RFC3339Nano)
	case s.ago > 0:
		return s.ago.String()
	default:
		return ""
	}
}

func (s *since) Type() string { return "since" }

func (s *since) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d > 0 {
		*s = since{ago: d}
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("want how long ago, as 1h, or a moment, as 2026-01-31T12:00:00Z")
	}
	*s = since{at: at}
	return nil
}

// from is the moment that is meant; zero: none.
func (s *since) from(now time.Time) time.Time {
	if s.ago > 0 {
		return now.Add(-s.ago)
	}
	return s.at
}

// fixedWords offers words that a flag takes.
func fixedWords(cmd *cobra.Command, flag string, words ...string) {
	// the flag is there
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// The exit codes.
const (
	CodeNo     = 1  // it failed, or the answer is no
	CodeUsage  = 2  // usage, or the bad configuration of a command that a person waits for
	CodeStale  = 3  // what was read is stale, and --stale=fail
	CodeConfig = 78 // EX_CONFIG of sysexits.h: a supervisor need not start it again
)

// Exit is an error that says with which code the program ends.
//
//nolint:errname // read as what it does: return cli.Exit{Code: 2, Err: err}
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the error inside.
func (e Exit) Unwrap() error { return e.Err }

// Report writes the error, one line, and returns the code to exit with: that of the [Exit] inside, else 1; 0 for none.
// An Exit without an error writes nothing. Errors repeat what others wrote, reasons of a pause among it, so what a
// terminal would obey is taken out.
func Report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[Exit](err); ok && exit.Err == nil {
		return exit.Code // what there was to say has been said
	}
	// there is nowhere else to report it
	_, _ = fmt.Fprintln(w, "error:", Printable(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")))
	if exit, ok := errors.AsType[Exit](err); ok {
		return exit.Code
	}
	return CodeNo
}

func usage(format string, args ...any) error {
	return Exit{CodeUsage, fmt.Errorf(format, args...)}
}

// finish makes a command speak as all of them do. Errors are printed once, by the caller, and what is wrong with flags
// and arguments ends with code 2.
func finish(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(FlagError)
	if cmd.Args != nil {
		cmd.Args = Arguments(cmd.Args)
	}
	return cmd
}

// Arguments makes what is wrong with arguments a usage error.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("%w; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}
