//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/peers"
	"github.com/shardctl/shardctl/bench/internal/replicas"
)

// measurement is one or a few figures that are taken together.
type measurement struct {
	name string
	what string
	run  func(context.Context, *lab.Lab) error
}

var measurements = []measurement{
	{"handover", "the gap when a replica stops in order, on MongoDB and on SQLite", replicas.Handovers},
	{"worker", "the gap when a replica's process is killed and its guard lives", replicas.WorkerKilled},
	{"crash", "failover after kill -9 of guard and worker, at T = 2 s and T = 20 s", replicas.Crashes},
	{"memory", "guard and worker of idle replicas that know 10,000 keys: one owns none, one all", replicas.Memory},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is a first argument that asks for something else than figures of this build alone.
type command func(ctx context.Context, args []string, out, errs io.Writer) int

var commands = map[string]command{
	"compare":           compareCommand,
	"peers":             peersCommand,
	peers.HolderCommand: holderCommand,
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], out, errs)
	}
	return figures(ctx, args, out, errs)
}

// figures takes the measurements that are named, by -only or as arguments, or all.
func figures(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	only := flags.String("only", "", "measure these alone, separated by commas: "+names())
	effort := effortFlags(flags)
	chosen, err := choose(flags, args, only)
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 2
	}
	return withLab(ctx, *effort, out, errs, func(l *lab.Lab) error { return measure(ctx, l, chosen) })
}

func effortFlags(flags *flag.FlagSet) *lab.Effort {
	var e lab.Effort
	flags.IntVar(&e.Rounds, "rounds", 0, "how often failures and hand-overs are repeated; 0: each figure's own number")
	flags.BoolVar(&e.Quick, "quick", false, "fewer rounds and shorter windows: for a first look")
	return &e
}

// withLab does something in a lab; 1 when it failed, or when anything was that must never be.
func withLab(ctx context.Context, e lab.Effort, out, errs io.Writer, do func(*lab.Lab) error) int {
	report := lab.NewReport(out)
	l, err := lab.Open(ctx, report, e)
	if err == nil {
		err = do(l)
		l.Close(ctx)
	}
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
	}
	if err != nil || report.Broken() {
		return 1
	}
	return 0
}

func names() string {
	all := make([]string, 0, len(measurements))
	for _, m := range measurements {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// choose reads names of measurements before and after the flags.
func choose(flags *flag.FlagSet, args []string, only *string) ([]measurement, error) {
	var wanted []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		wanted, args = append(wanted, args[0]), args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	wanted = append(wanted, flags.Args()...)
	if *only != "" {
		wanted = append(wanted, strings.Split(*only, ",")...)
	}
	if len(wanted) == 0 {
		return measurements, nil
	}
	var chosen []measurement
	for _, name := range wanted {
		at := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == strings.TrimSpace(name) })
		if at < 0 {
			return nil, fmt.Errorf("%q: want some of %s", name, names())
		}
		chosen = append(chosen, measurements[at])
	}
	return chosen, nil
}

// measureOne takes one, and says how quiet the machine was.
func measureOne(ctx context.Context, l *lab.Lab, m measurement) error {
	quiet := lab.NewQuiet()
	defer quiet.Close()
	if err := m.run(ctx, l); err != nil {
		l.Broke(m.name, "%v", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.Note("  "+m.name+" took", "%.0f s, %v", time.Since(quiet.Began).Seconds(), quiet)
	return nil
}

// measure takes the chosen measurements. One that cannot be taken is printed as broken; the others go on.
func measure(ctx context.Context, l *lab.Lab, chosen []measurement) error {
	for _, m := range chosen {
		if err := measureOne(ctx, l, m); err != nil {
			return err
		}
	}
	l.Sum()
	return nil
}
