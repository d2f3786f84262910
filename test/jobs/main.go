//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/toolcache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("jobs", flag.ContinueOnError)
	list := flags.Bool("list", false, "print the names of the jobs, and run none")
	tries := flags.String("tries", "", "how often a test that failed may be tried; empty: as the Makefile says")
	record := flags.String("record", "",
		"file with the results of earlier runs, which are in the table; this one's are added")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "jobs [FLAGS] test|ci|nightly [JOB…]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("a plan is needed: test, ci or nightly")
	}
	plan, only := flags.Arg(0), flags.Args()[1:]
	stages, err := choose(plan, only)
	if err != nil {
		return err
	}
	if *list {
		for _, name := range names(stages) {
			_, _ = fmt.Fprintln(out, name)
		}
		return nil
	}
	o := options{tries: *tries, record: *record, clean: plan == "test"}
	if plan == "ci" && (len(only) == 0 || os.Getenv(baseEnv) != "") {
		o.skip = notReached(ctx, names(stages), out)
	}
	return play(ctx, stages, o, out)
}

type options struct {
	tries, record string
	skip          map[string]string // why jobs do not run, by name
	clean         bool              // what is left behind is a failure; else it is only reported
}

// play installs what the jobs need, runs them, and prints the table.
func play(ctx context.Context, stages []stage, o options, out io.Writer) (err error) {
	before, err := load(o.record)
	if err != nil {
		return err
	}
	dir, unlock, err := temporary()
	if err != nil {
		return err
	}
	defer unlock()
	r := &runner{
		dir: filepath.Join(dir, "t"), logs: filepath.Join(dir, "logs"), tries: o.tries, out: out,
		mark: fmt.Sprintf("%s-%d", filepath.Base(dir), os.Getpid()), // of this run alone
	}
	if err := errors.Join(os.Mkdir(r.dir, 0o755), os.Mkdir(r.logs, 0o755)); err != nil {
		return fmt.Errorf("directory of the run: %w", err)
	}
	began := time.Now()
	well := true
	if targets := installs(stages, o.skip); len(targets) > 0 {
		r.one(ctx, job{name: "install", make: targets, limit: longest}, "")
		well = r.allPassed()
	}
	well = well && r.stages(ctx, stages, o.skip)
	table(out, append(before, r.results...), time.Since(began))
	left := leftovers(r.mark, r.dir)
	for _, line := range left {
		_, _ = fmt.Fprintln(out, "left behind:", line)
	}
	if err := save(o.record, r.results); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		_ = os.RemoveAll(dir) // what was interrupted is of no use
		return errors.New("interrupted")
	case !well:
		return fmt.Errorf("FAILED; what failed tests have kept, and the output of all jobs, is in %s", dir)
	case len(left) > 0 && o.clean:
		return errors.Join(fmt.Errorf("FAILED: tests have left %d files or processes behind", len(left)),
			os.RemoveAll(dir))
	}
	return os.RemoveAll(dir)
}

// dirPrefix begins the names of the runs' directories.
const dirPrefix = "shardctl-run-"

// sharedMemory is where Linux has files in memory.
const sharedMemory = "/dev/shm"

// temporary makes the directory of a run, which is locked until unlock is called or this process ends. Directories of
// earlier runs go: only the newest failure is kept, until the next run.
func temporary() (dir string, unlock func(), err error) {
	var old []string
	for _, parent := range []string{os.TempDir(), sharedMemory} {
		found, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
		old = append(old, found...)
	}
	for _, dir := range old {
		unlock, err := toolcache.TryLock(filepath.Join(dir, "lock"))
		if err != nil {
			continue // it runs, or is not ours
		}
		_ = os.RemoveAll(dir)
		unlock()
	}
	if dir, err = makeDir(parentDir()); err != nil {
		return "", nil, fmt.Errorf("directory of the run: %w", err)
	}
	unlock, err = toolcache.TryLock(filepath.Join(dir, "lock"))
	return dir, unlock, errors.Join(err, os.Chmod(dir, 0o755)) // servers of another user pass through it
}

// makeDir makes a directory whose name is always the same for a checkout, unless another run has that. Go keeps results
// of tests only while their TMPDIR stays the same.
func makeDir(parent string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, fmt.Sprintf("%s%08x", dirPrefix, crc32.ChecksumIEEE([]byte(here))))
	if os.Mkdir(dir, 0o755) == nil {
		return dir, nil
	}
	return os.MkdirTemp(parent, dirPrefix)
}

// notReached says of jobs why the change does not ask for them. Where that cannot be said, all run.
func notReached(ctx context.Context, names []string, out io.Writer) map[string]string {
	c, err := changed(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(out, "all jobs run, since what has changed is not known:", err)
		return nil
	}
	why := map[string]string{}
	for _, name := range names {
		j, _ := find(name)
		if len(j.reached) == 0 {
			continue
		}
		if reached, err := c.reaches(ctx, j.reached); !reached && err == nil {
			why[name] = "no file that it depends on has changed since " + c.base
		}
	}
	return why
}
