package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	CodeNo    = 1 // it failed, or the answer is no
	CodeUsage = 2 // usage or bad configuration
	CodeStale = 3 // what was read is stale, and --stale=fail
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
	_, _ = fmt.Fprintln(w, "error:", plainText(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")))
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
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage("%w; see %s --help", err, cmd.CommandPath())
			}
			return nil
		}
	}
	return cmd
}
