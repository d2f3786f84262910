package cli

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardctl/shardctl/internal/nearest"
)

// FlagError is a usage error about a flag. It names the flag that was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if near := nearest.Name(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
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

// String implements [pflag.Value].
func (d *positiveDuration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements [pflag.Value].
func (d *positiveDuration) Type() string { return "duration" }

// Set implements [pflag.Value].
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

// String implements [pflag.Value].
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements [pflag.Value].
func (d *duration) Type() string { return "duration" }

// Set implements [pflag.Value].
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

// FixedWords offers words that a flag takes.
func FixedWords(cmd *cobra.Command, flag string, words ...string) {
	// the flag is there
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
