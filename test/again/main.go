// Command again runs go test, and repeats single tests that failed:
//
//	go run ./test/again FLAGS -- PACKAGES
//
// Only tests whose processes must keep time have a second attempt: on a machine that stands still for seconds, replicas
// rightly lose their leases. Each is printed on a line "tried again: PACKAGE TEST". All other packages have no second
// attempt, nor has one that failed without a failed test: it was not built, panicked, ran out of time, or its TestMain
// failed. A package whose process the race detector ended, because a check of the detector's own failed, says nothing
// about its tests. It is repeated whole, whichever it is. With TRIES=1 in the environment nothing has a second attempt.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// timed are the packages whose tests have a second attempt. Guards and replicas have none: what they do in time is what
// they are for.
var timed = regexp.MustCompile(
	`/(cmd/shardctl|docs|internal/(dev|discovery|status|test(broker|mongo|process|servers))|` +
		`pkg/tasks(/subscribe(/[a-z]+)?)?)$`,
)

const most = 5 // tests: more at once are no accident

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
}

// run tests in a directory of a module.
func run(ctx context.Context, dir string, args []string, out io.Writer) error {
	at := slices.Index(args, "--")
	if at < 0 {
		return fmt.Errorf("want FLAGS -- PACKAGES, got %q", args)
	}
	flags, packages := args[:at], args[at+1:]
	seen := &reader{out: out}
	first := goTest(ctx, dir, seen, flags, packages...)
	if first == nil {
		return nil
	}
	if os.Getenv("TRIES") == "1" {
		return first
	}
	if why := refused(seen.failed); why != "" {
		return fmt.Errorf("%s: %w", why, first)
	}
	for _, p := range seen.failed {
		if p.detector {
			_, _ = fmt.Fprintf(out, "tried again: %s (the race detector failed)\n", p.path)
		}
		for _, name := range p.tests {
			_, _ = fmt.Fprintf(out, "tried again: %s %s\n", p.path, name)
		}
	}
	for _, p := range seen.failed {
		these := append(slices.Clone(flags), "-count=1")
		if !p.detector {
			these = append(these, "-run", "^("+strings.Join(p.tests, "|")+")$")
		}
		if err := goTest(ctx, dir, out, these, p.path); err != nil {
			return fmt.Errorf("second attempt of %s: %w", p.path, err)
		}
	}
	return nil
}

func goTest(ctx context.Context, dir string, out io.Writer, flags []string, packages ...string) error {
	args := slices.Concat([]string{"test"}, flags, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends the tests, too
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// refused says why there is no second attempt; "" when there is one.
func refused(failed []failure) string {
	tests := 0
	for _, p := range failed {
		switch {
		case p.detector:
			tests++
		case !timed.MatchString(p.path):
			return p.path + " has no second attempt"
		case len(p.tests) == 0:
			return p.path + " failed without a failed test"
		}
		tests += len(p.tests)
	}
	switch {
	case tests == 0:
		return "no package failed"
	case tests > most:
		return fmt.Sprintf("%d tests failed, of which at most %d are tried again", tests, most)
	}
	return ""
}
