package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage:
  go -C image run . build   [flags]   make the image; --help lists the flags
  go -C image run . rootfs  [flags]   write the image's files into a directory, for a Dockerfile
Paths are relative to image/.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code: 2 for a command line that makes no sense.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := execute(ctx, args, out, errs)
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(errs, "image:", err)
		return 2
	default:
		fmt.Fprintln(errs, "image:", err)
		return 1
	}
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

func wrongUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func execute(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return wrongUsage("say what to do: build or rootfs")
	}
	switch args[0] {
	case "build":
		return buildCommand(ctx, args[1:], out, errs)
	case "rootfs":
		return rootfsCommand(ctx, args[1:], out, errs)
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return nil
	default:
		fmt.Fprint(errs, usage)
		return wrongUsage("there is no command %q: build or rootfs", args[0])
	}
}
