//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/replicas"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// This file compares two builds in turn, by one harness. It measures their programs from outside, and their plans by
// the benchmark of package balancer that each has.

// compareCommand measures another revision and this tree in turn.
func compareCommand(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	flags.SetOutput(errs)
	effort := effortFlags(flags)
	baseline := flags.String("baseline", "", "the revision to compare this tree with; required")
	if flags.Parse(args) != nil {
		return 2
	}
	if *baseline == "" || flags.NArg() > 0 {
		fmt.Fprintln(errs, "bench compare: want -baseline REVISION, and no other arguments; got", flags.Args())
		return 2
	}
	return withLab(ctx, *effort, out, errs, func(l *lab.Lab) error {
		return compareBuilds(ctx, l, *baseline, l.Times(5, 1))
	})
}

// mostRatio is how many times as much as before each figure may be.
const mostRatio = 1.1

// What each run has: enough for a median, for the runs are repeated.
const (
	gapRounds   = 3
	crashLease  = 2 * time.Second
	coldNodes   = 4
	coldTasks   = 40
	idleNodes   = 3
	idleTasks   = 3_000
	idleLease   = 4 * time.Second
	idleWindow  = 2 * idleLease
	planCases   = `^BenchmarkBalance$/^(cold|idle|one_dies|weights)$`
	planRepeats = "5x"
)

// comparison is one figure of a run, in a unit of its own; less is better.
type comparison struct {
	name, unit string
	take       func(context.Context, *lab.Lab, build) (float64, error)
}

var comparisons = []comparison{
	{"hand-over gap, p50", "ms", func(ctx context.Context, l *lab.Lab, _ build) (float64, error) {
		return median(replicas.Gaps(ctx, l, gapRounds))
	}},
	{fmt.Sprintf("fail-over, T = %v, p50", crashLease), "ms", func(ctx context.Context, l *lab.Lab, _ build) (float64,
		error,
	) {
		return median(replicas.Failovers(ctx, l, crashLease, 1))
	}},
	{fmt.Sprintf("cold start, %d replicas, %d tasks", coldNodes, coldTasks), "ms", func(ctx context.Context,
		l *lab.Lab, _ build,
	) (float64, error) {
		d, err := replicas.ColdStart(ctx, l, coldNodes, coldTasks)
		return milliseconds(d), err
	}},
	{
		fmt.Sprintf("idle, %d replicas, %d tasks, T = %v", idleNodes, idleTasks, idleLease), "commands/s",
		func(ctx context.Context, l *lab.Lab, _ build) (float64, error) {
			t, err := replicas.IdleCost(ctx, l, idleNodes, idleTasks, idleLease, idleWindow)
			return t.PerSecond(t.Commands), err
		},
	},
	{"Balance, slowest of four cases", "ms", func(ctx context.Context, _ *lab.Lab, b build) (float64,
		error,
	) {
		return b.plan(ctx)
	}},
}

// compareBuilds measures a baseline and the tree of the working directory in turn, n times, and prints medians.
func compareBuilds(ctx context.Context, l *lab.Lab, baseline string, n int) error {
	before, err := buildAt(ctx, l, baseline)
	if err != nil {
		return err
	}
	now, err := buildIn(ctx, l, ".", "now")
	if err != nil {
		return err
	}
	builds := []build{before, now}
	values := make([][2][]float64, len(comparisons))
	for i := range n {
		for turn := range builds {
			which := (turn + i) % 2 // neither is always the first
			b, quiet := builds[which], lab.NewQuiet()
			under := *l
			under.Bins.Shardctl = b.shardctl
			for f := range comparisons {
				v, err := comparisons[f].take(ctx, &under, b)
				if err != nil {
					quiet.Close()
					return fmt.Errorf("%s, %s: %w", b.name, comparisons[f].name, err)
				}
				values[f][which] = append(values[f][which], v)
			}
			l.Note(fmt.Sprintf("  run %d of %s", i+1, b.name), "%s; %.0f s, %v", last(values, which),
				time.Since(quiet.Began).Seconds(), quiet)
			quiet.Close()
		}
	}
	for f, v := range values {
		was, is := middle(v[0]), middle(v[1])
		l.Figure(comparisons[f].name, is <= mostRatio*was, fmt.Sprintf("≤ %.1f × before", mostRatio),
			"%s %.1f %s → now %.1f %s, median of %d; ratio %.2f",
			before.name, was, comparisons[f].unit, is, comparisons[f].unit, n, is/was)
	}
	l.Sum()
	return nil
}

// last shows the newest value of each figure.
func last(values [][2][]float64, which int) string {
	var all []string
	for f := range values {
		v := values[f][which]
		all = append(all, fmt.Sprintf("%.1f %s", v[len(v)-1], comparisons[f].unit))
	}
	return strings.Join(all, ", ")
}

// plan is the time of the slowest case of package balancer's own benchmark, which is the same in both revisions, on
// one core.
func (b build) plan(ctx context.Context) (float64, error) {
	out, err := output(ctx, ".", b.balancer, "-test.run=^$", "-test.bench="+planCases, "-test.benchtime="+planRepeats,
		"-test.cpu=1")
	if err != nil {
		return 0, err
	}
	slowest := 0.0
	for line := range strings.Lines(out) {
		fields := strings.Fields(line) // BenchmarkBalance/cold  5  81234567 ns/op  …
		if len(fields) < 4 || fields[3] != "ns/op" {
			continue
		}
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		slowest = max(slowest, ns/float64(time.Millisecond))
	}
	if slowest == 0 {
		return 0, fmt.Errorf("no figure of %s in:\n%s", planCases, out)
	}
	return slowest, nil
}

func median(all []time.Duration, err error) (float64, error) {
	if err == nil && len(all) == 0 {
		err = errors.New("nothing was measured")
	}
	if err != nil {
		return 0, err
	}
	return milliseconds(history.Percentile(all, 50)), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// middle is the median of some values.
func middle(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// build is one revision, built.
type build struct {
	name     string
	shardctl string
	balancer string // the test program of package balancer
}

// buildAt builds a revision in a work tree of its own, which it removes again.
func buildAt(ctx context.Context, l *lab.Lab, revision string) (build, error) {
	short, err := output(ctx, ".", "git", "rev-parse", "--short", "--verify", revision+"^{commit}")
	if err != nil {
		return build{}, err
	}
	tree := filepath.Join(l.Work, "tree-"+short)
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return build{}, err
	}
	defer func() { // what fails here, git worktree prune does
		_, _ = output(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree)
	}()
	return buildIn(ctx, l, tree, short)
}

// buildIn builds the tree in a directory.
func buildIn(ctx context.Context, l *lab.Lab, tree, name string) (build, error) {
	b := build{name: name, shardctl: filepath.Join(l.Work, "shardctl-"+name), balancer: filepath.Join(l.Work,
		"balancer-"+name)}
	if _, err := output(ctx, tree, "go", "build", "-o", b.shardctl, "./cmd/shardctl"); err != nil {
		return b, err
	}
	_, err := output(ctx, tree, "go", "test", "-c", "-o", b.balancer, "./pkg/balancer")
	return b, err
}

// output runs a command in a directory and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, go, and programs built by it
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", filepath.Base(name), strings.Join(args, " "), err, errs.String(), out)
	}
	return strings.TrimSpace(string(out)), nil
}
