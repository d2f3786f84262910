//go:build linux

package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const replicas = 3

// rig is a cluster of real replicas that loses one and gets a new one, round after round.
type rig struct{ *harness.Cluster }

// withRig starts replicas with tasks, in balance, and ends them when measure is done. What ran is then held to what
// must always be so: no two runs of a key at once, and rising tokens.
func withRig(ctx context.Context, b *lab.Lab, name string, o harness.Options, measure func(*rig) error) error {
	dir, err := os.MkdirTemp(b.Work, name+"-")
	if err != nil {
		return err
	}
	if o.StoreURI == "" {
		_, uri, drop := b.DB.Fresh(ctx)
		defer drop()
		o.StoreURI = uri
	}
	o.Settle = lab.Settle
	o.Recorder = []string{"--period", lab.RecordEvery.String()}
	c, err := harness.NewCluster(b.Bins, dir, o)
	if err != nil {
		return err
	}
	defer c.Close()
	r := &rig{c}
	if err := r.Add(ctx, replicas); err != nil {
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
		b.Broke(name, "%v", overlap)
	}
	for _, fault := range h.TokenFaults() {
		b.Broke(name, "token: %v", fault)
	}
	return nil
}

// sqliteURI is the URI of a database file that does not exist yet.
func sqliteURI(b *lab.Lab) (string, error) {
	dir, err := os.MkdirTemp(b.Work, "sqlite-")
	return "sqlite:" + filepath.Join(dir, "locks.db"), err
}

func (r *rig) balanced(ctx context.Context) error {
	return lab.Until(ctx, func() error { return r.CheckSpread(ctx, r.Tasks) })
}

// loss is one replica that ended, and what came of its keys.
type loss struct {
	at   history.Instant // just before the signal
	keys []string
	h    *history.History
}

// lose ends the oldest replica by a signal, at any moment between two heartbeats. It waits until its keys run
// elsewhere, and puts a new one in its place.
func (r *rig) lose(ctx context.Context, part harness.Part, sig syscall.Signal) (loss, error) {
	leaving := r.Live()[0]
	keys, err := r.KeysOf(leaving.Name)
	if err != nil {
		return loss{}, err
	}
	if err := clock.Sleep(ctx, rand.N(r.Lease/10)); err != nil { //nolint:gosec // a moment, not a secret
		return loss{}, err
	}
	at, err := leaving.Kill(part, sig)
	if err != nil {
		return loss{}, err
	}
	if err := lab.Until(ctx, func() error { return r.CheckTaken(keys, at) }); err != nil {
		return loss{}, fmt.Errorf("%s: %w", leaving.Name, err)
	}
	h, err := r.History()
	if err != nil {
		return loss{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	if _, err := leaving.Wait(waiting); err != nil {
		return loss{}, err
	}
	if err := r.Add(ctx, 1); err != nil {
		return loss{}, err
	}
	return loss{at, keys, h}, r.balanced(ctx)
}

// failovers are the times from the signal to the first timestamp elsewhere, of each key.
func (l loss) failovers() []time.Duration {
	var all []time.Duration
	for _, key := range l.keys {
		if run, ok := l.next(key); ok {
			all = append(all, run.Start.Sub(l.at))
		}
	}
	return all
}

// gaps are the times from the last timestamp of the old run to the first of the new, of each key.
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

// next is the first run of a key after the signal.
func (l loss) next(key string) (history.Run, bool) {
	for _, run := range l.h.Runs(key) {
		if run.Start >= l.at {
			return run, true
		}
	}
	return history.Run{}, false
}
