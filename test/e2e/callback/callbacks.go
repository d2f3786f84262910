//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	group = "topics"
	// What the bad task may do.
	badBlock, badPanic, badLeak = "block", "panic", "leak"

	period = 20 * time.Millisecond // between two timestamps
	life   = 200 * time.Millisecond
	leaks  = 100 // goroutines that a run of the leaking task leaves behind
)

// callbacks are the functions of the tasks, by name.
func callbacks(s settings) (*tasks.Registry, error) {
	bad, ok := map[string]tasks.Callback{
		//nolint:contextcheck // to take no notice of its context is what this one is for
		badBlock: func(_ context.Context, run tasks.Run) error { return record(context.Background(), s, run) },
		badPanic: func(ctx context.Context, run tasks.Run) error {
			if err := recordFor(ctx, s, run, life); err != nil {
				return err
			}
			panic("as --bad asks")
		},
		badLeak: func(ctx context.Context, run tasks.Run) error {
			for range leaks {
				go func() { select {} }()
			}
			return errors.Join(recordFor(ctx, s, run, life), errors.New("as --bad asks"))
		},
	}[s.bad]
	if !ok {
		return nil, fmt.Errorf("--bad %q: block, panic or leak", s.bad)
	}
	r := &tasks.Registry{}
	return r, errors.Join(r.Register("bad", bad), r.Register("steady", func(ctx context.Context, run tasks.Run) error {
		return record(ctx, s, run)
	}))
}

// list is what all copies share.
func list(s settings) []*tasks.Task {
	var all []*tasks.Task
	add := func(name, function string) {
		all = append(all, &tasks.Task{
			Identity: tasks.Identity{Group: group, Name: name}, Runner: callback.Runner(function),
			Stop:    tasks.Stop{Timeout: 200 * time.Millisecond},
			Backoff: tasks.Backoff{Initial: 200 * time.Millisecond, Max: time.Minute},
		})
	}
	add("bad", "bad")
	for i := range s.steady {
		add(fmt.Sprintf("steady-%d", i+1), "steady")
	}
	return all
}

func declaration(list []*tasks.Task) reconcile.Declared {
	g := reconcile.DeclaredGroup{Name: group, Hash: "1"}
	for _, t := range list {
		g.Keys = append(g.Keys, reconcile.DeclaredKey{Key: t.Key()})
	}
	return reconcile.Declared{Groups: []reconcile.DeclaredGroup{g}}
}

// recordFor records for a while and returns nil then.
func recordFor(ctx context.Context, s settings, run tasks.Run, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := record(ctx, s, run)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// record notes that this run is alive until ctx ends.
func record(ctx context.Context, s settings, run tasks.Run) error {
	w, err := history.Create(os.Getenv("RECORD_DIR"), history.Header{
		Key: string(run.Key()), Token: run.Token, Session: run.Lease.Session(), Instance: s.instance, PID: os.Getpid(),
	}, now())
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what is written is written
	for tick := time.NewTicker(period); ; {
		select {
		case <-tick.C:
			if err := w.Append(now()); err != nil {
				return err
			}
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		}
	}
}

func now() history.Timestamp {
	return history.Timestamp{At: history.Now(), Wall: time.Now().UnixNano()}
}
