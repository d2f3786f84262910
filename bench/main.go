//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
)

// bench is what the measurements share.
type bench struct {
	*report

	db     *database
	bins   harness.Binaries
	work   string // files of all clusters
	rounds int    // 0: each measurement's own
	quick  bool
}

// measurement is one or a few figures that are taken together.
type measurement struct {
	name string
	what string
	run  func(*bench, context.Context) error
}

func measurements() []measurement {
	return []measurement{
		{"handover", "the gap when a replica stops in order, on MongoDB and on SQLite", (*bench).handovers},
		{"worker", "the gap when a replica's process is killed and its guard lives", (*bench).workerKilled},
		{"crash", "failover after kill -9 of guard and worker, at T = 2 s and T = 20 s", (*bench).crashes},
		{"scaleout", "keys moved, and how fast, when a replica joins", (*bench).scaleOuts},
		{"coldstart", "10 replicas take 10,000 keys", (*bench).coldStart},
		{"idle", "what replicas ask of the database while nothing changes", (*bench).idle},
		{"balance", "one plan for 100,000 keys and 1,000 members", (*bench).balance},
		{"memory", "guard and worker of an idle replica that knows 10,000 keys", (*bench).memory},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	only := flags.String("only", "", "measure these alone, separated by commas: "+names())
	rounds := flags.Int("rounds", 0, "how often failures and hand-overs are repeated; 0: each figure's own number")
	quick := flags.Bool("quick", false, "fewer rounds and shorter windows: for a first look")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	chosen, err := choose(*only)
	if err != nil || flags.NArg() > 0 {
		fmt.Fprintln(errs, "bench:", err, flags.Args())
		return 2
	}
	b := &bench{report: &report{out: out}, rounds: *rounds, quick: *quick}
	if err := b.all(ctx, chosen); err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 1
	}
	if len(b.broken) > 0 {
		return 1
	}
	return 0
}

func names() string {
	all := make([]string, 0, len(measurements()))
	for _, m := range measurements() {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

func choose(only string) ([]measurement, error) {
	if only == "" {
		return measurements(), nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, m := range measurements() {
			if m.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, m), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-only %q: want some of %s", name, names())
		}
	}
	return chosen, nil
}

// all takes the chosen measurements. One that cannot be taken is told as broken; the others go on.
func (b *bench) all(ctx context.Context, chosen []measurement) error {
	var err error
	if b.work, err = os.MkdirTemp("", "shardctl-bench-"); err != nil {
		return err
	}
	defer func() {
		if len(b.broken) > 0 {
			b.note("left for a look", "%s", b.work)
			return
		}
		_ = os.RemoveAll(b.work) // best effort, in the directory for such things
	}()
	if err := enterModule(ctx); err != nil {
		return err
	}
	if b.bins, err = harness.Build(ctx, b.work); err != nil {
		return err
	}
	if b.db, err = startDatabase(ctx); err != nil {
		return err
	}
	defer b.db.close(ctx)
	b.note("machine", "%d CPUs, load %s, %s, MongoDB %s", runtime.NumCPU(), load(), runtime.Version(), b.db.version(ctx))
	if err := measureBaseline(ctx, b.report, b.db); err != nil {
		return err
	}
	if err := measureProcess(ctx, b.report, b.bins, b.work); err != nil {
		return err
	}
	for _, m := range chosen {
		begin := time.Now()
		if err := m.run(b, ctx); err != nil {
			b.broke(m.name, "%v", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.note("  "+m.name+" took", "%.0f s, load %s", time.Since(begin).Seconds(), load())
	}
	b.sum()
	return nil
}

// enterModule makes the directory of the module under test the working directory: the harness builds what is there.
func enterModule(ctx context.Context) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/shardctl/shardctl").Output()
	if err != nil {
		return fmt.Errorf("find the module (run bench in its own directory): %w", err)
	}
	return os.Chdir(strings.TrimSpace(string(dir)))
}

// load is how many processes wanted a CPU in the last minute: figures of a busy machine say little.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	first, _, ok := strings.Cut(string(data), " ")
	if err != nil || !ok {
		return "?"
	}
	return first
}

// times is the number of rounds: what -rounds says, else the figure's own.
func (b *bench) times(full, quick int) int {
	switch {
	case b.rounds > 0:
		return b.rounds
	case b.quick:
		return quick
	}
	return full
}
