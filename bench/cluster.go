//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	replicas = 3
	// stampEvery is the time between two stamps of a task: gaps are too long by up to that.
	stampEvery = 5 * time.Millisecond
	settle     = 300 * time.Millisecond
	patience   = 90 * time.Second
	tryEvery   = 50 * time.Millisecond
)

// rig is a cluster of real replicas that loses one and gets a new one, round after round.
type rig struct {
	*harness.Cluster
	b *bench
}

// withRig starts replicas with tasks, in balance, and ends them when measure is done. What ran is then held to what must always be so:
// no two runs of a key at once, and rising tokens.
func (b *bench) withRig(ctx context.Context, name string, o harness.Options, measure func(*rig) error) error {
	dir, err := os.MkdirTemp(b.work, name+"-")
	if err != nil {
		return err
	}
	if o.StoreURI == "" {
		_, uri, drop := b.db.fresh(ctx)
		defer drop()
		o.StoreURI = uri
	}
	o.Settle = settle
	o.Recorder = append(o.Recorder, "--period", stampEvery.String())
	c, err := harness.NewCluster(b.bins, dir, o)
	if err != nil {
		return err
	}
	defer c.Close()
	r := &rig{Cluster: c, b: b}
	if err := c.Add(ctx, replicas); err != nil {
		return err
	}
	if err := r.balanced(ctx); err != nil {
		return err
	}
	if err := measure(r); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Logs(8))
	}
	h, err := c.History()
	if err != nil {
		return err
	}
	for _, overlap := range h.Overlaps() {
		b.broke(name, "%v", overlap)
	}
	for _, fault := range h.TokenFaults() {
		b.broke(name, "token: %v", fault)
	}
	return nil
}

// sqliteURI is the URI of a database file that does not exist yet.
func (b *bench) sqliteURI() (string, error) {
	dir, err := os.MkdirTemp(b.work, "sqlite-")
	return "sqlite:" + filepath.Join(dir, "locks.db"), err
}

func (r *rig) balanced(ctx context.Context) error {
	return until(ctx, func() error { return r.CheckSpread(ctx, r.Tasks) })
}

// loss is one replica that ended, and what came of its keys.
type loss struct {
	at   history.Instant // just before the signal
	keys []string
	h    *history.History
}

// lose ends the oldest replica by a signal, at any moment between two beats, waits until its keys run elsewhere, and
// puts a new one in its place.
func (r *rig) lose(ctx context.Context, part harness.Part, sig syscall.Signal) (loss, error) {
	leaving := r.Live()[0]
	keys, err := r.KeysOf(leaving.Name)
	if err != nil {
		return loss{}, err
	}
	if err := pause(ctx, rand.N(r.Lease/10)); err != nil { //nolint:gosec // a moment, not a secret
		return loss{}, err
	}
	at, err := leaving.Kill(part, sig)
	if err != nil {
		return loss{}, err
	}
	if err := until(ctx, func() error { return r.CheckTaken(keys, at) }); err != nil {
		return loss{}, fmt.Errorf("%s: %w", leaving.Name, err)
	}
	h, err := r.History()
	if err != nil {
		return loss{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := leaving.Wait(waiting); err != nil {
		return loss{}, err
	}
	if err := r.Add(ctx, 1); err != nil {
		return loss{}, err
	}
	return loss{at, keys, h}, r.balanced(ctx)
}

// failovers are the times from the signal to the first stamp elsewhere, of each key.
func (l loss) failovers() []time.Duration {
	var all []time.Duration
	for _, key := range l.keys {
		if run, ok := l.next(key); ok {
			all = append(all, run.Start.Sub(l.at))
		}
	}
	return all
}

// gaps are the times from the last stamp of the old run to the first of the new, of each key.
func (l loss) gaps() []time.Duration {
	var all []time.Duration
	for _, key := range l.keys {
		if run, ok := l.next(key); ok {
			runs := l.h.Runs(key)
			for i := range runs {
				if i > 0 && runs[i].Token == run.Token {
					all = append(all, run.Start.Sub(runs[i-1].End))
				}
			}
		}
	}
	return all
}

// phases splits the gaps at the moment when the new owner sent its claim. The token tells that moment, for it is the store's clock
// in milliseconds, and the store is on this machine.
func (l loss) phases() (stop, start []time.Duration) {
	now, wall := history.Now(), time.Now().UnixMilli()
	for _, key := range l.keys {
		run, ok := l.next(key)
		if !ok {
			continue
		}
		claimed := now.Add(time.Duration(run.Token-wall) * time.Millisecond)
		for i, other := range l.h.Runs(key) {
			if i > 0 && other.Token == run.Token {
				stop = append(stop, claimed.Sub(l.h.Runs(key)[i-1].End))
				start = append(start, run.Start.Sub(claimed))
			}
		}
	}
	return stop, start
}

// next is the first run of a key after the signal.
func (l loss) next(key string) (history.Run, bool) {
	for _, run := range l.h.Runs(key) {
		if run.Start >= l.at {
			return run, true
		}
	}
	return history.Run{}, false
}

// until repeats check until it passes; its last error is returned when patience is over.
func until(ctx context.Context, check func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, tryEvery); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
