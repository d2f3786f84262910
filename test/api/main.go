//go:build linux

// Command api has schemathesis, which makes requests of an OpenAPI document, find out whether real replicas answer as
// their document says. It starts them itself, on SQLite, and fails when anything is not as described.
//
//	go run ./test/api -whole -examples 100 -seed 7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	examples int
	seed     int
	whole    bool
	only     string
	program  string
	reports  string
}

func main() {
	var o options
	flag.IntVar(&o.examples, "examples", 3, "requests made of each operation, in each phase, at most")
	flag.IntVar(&o.seed, "seed", 1, "which requests are made; the same seed makes the same ones")
	flag.BoolVar(&o.whole, "whole", false, "every phase in every round, also where another round has much the same")
	flag.StringVar(&o.only, "only", "", "only the round of this name")
	flag.StringVar(&o.program, "program", "", "shardctl; empty: built from this tree")
	flag.StringVar(&o.reports, "reports", "", "directory for reports of each round; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.examples < 1 {
		return fmt.Errorf("-examples %d: want 1 or more", o.examples)
	}
	tool, err := schemathesis(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "shardctl-api-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.program == "" {
		if o.program, err = build(ctx, dir); err != nil {
			return err
		}
	}
	var failed []string
	for _, tokens := range []bool{false, true} {
		names, err := rounds(ctx, o, tool, dir, tokens)
		if err != nil {
			return err
		}
		failed = append(failed, names...)
	}
	if len(failed) > 0 {
		return errors.New("not as described: " + strings.Join(failed, ", "))
	}
	return nil
}

// rounds starts a cluster, with or without tokens, and has all rounds run that are about it. It returns those that
// failed.
func rounds(ctx context.Context, o options, tool, dir string, tokens bool) (failed []string, err error) {
	wanted := roundsOf(tokens)
	if o.only != "" {
		wanted = named(wanted, o.only)
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	c, err := start(ctx, o.program, dir, tokens)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	for _, r := range wanted {
		begin := time.Now()
		fmt.Fprintf(os.Stdout, "== %s\n", r.name)
		err := r.run(ctx, o, tool, c)
		fmt.Fprintf(os.Stdout, "== %s: %s\n", r.name, time.Since(begin).Round(100*time.Millisecond))
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			failed = append(failed, r.name)
		}
		if err := c.alive(ctx); err != nil {
			return nil, fmt.Errorf("after %s: %w", r.name, err)
		}
	}
	return failed, nil
}
