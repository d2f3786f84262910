//go:build linux

package replicas

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// stages are the parts of hand-overs, of one key each.
type stages struct {
	release, claim, start []time.Duration
	missing               int // hand-overs of which a write was not seen
}

// stageRatio is how many times its floor each stage may take at the median.
type stageRatio struct {
	name   string
	keys   int // that one replica hands over at once
	rounds int
	period string // between two timestamps: an end of a run reads early by half of that, on average
	atMost float64
}

// handOverStages prints the three stages of a hand-over beside their floors: at one key and with twenty at once.
func handOverStages(ctx context.Context, b *lab.Lab) error {
	for _, c := range []stageRatio{
		{"one key", 1, b.Times(15, 3), "1ms", 1.5},
		{"20 keys at once", 20, b.Times(4, 1), "5ms", 3},
	} {
		s, err := measureStages(ctx, b, c)
		if err != nil {
			return err
		}
		after := max(0, b.Floor.Delivery-b.Floor.Write)
		for _, part := range []struct {
			name, floor string
			took        []time.Duration
			least       time.Duration
		}{
			{"end of run → release acknowledged", "a majority write", s.release, b.Floor.Write},
			{
				"→ claim acknowledged", "delivery of an answered write, and a majority write", s.claim,
				after + b.Floor.Write,
			},
			{"→ new run started", "fork and exec to the first timestamp", s.start, b.Floor.Process},
			{"in all", "the three", s.all(), after + 2*b.Floor.Write + b.Floor.Process},
		} {
			p50 := history.Percentile(part.took, 50)
			times := float64(p50) / float64(part.least)
			b.Figure("stage, "+c.name+": "+part.name, times <= c.atMost, fmt.Sprintf("≤ %.1f × floor", c.atMost),
				"p50 %s, p99 %s, n=%d; floor %s (%s); p50 = %.1f × floor", lab.MS(p50),
				lab.MS(history.Percentile(part.took, 99)), len(part.took),
				lab.MS(part.least), part.floor, times)
		}
		if s.missing > 0 {
			b.Note("  stages, "+c.name, "%d hand-overs whose writes were not seen are left out", s.missing)
		}
	}
	return nil
}

// measureStages stops replicas in order, each behind a proxy of its own to the database that notes when writes were
// answered.
func measureStages(ctx context.Context, b *lab.Lab, c stageRatio) (stages, error) {
	name, _, drop := b.DB.Fresh(ctx)
	defer drop()
	t := newTap()
	var links []*testmongo.Link
	defer func() {
		for _, link := range links {
			link.Close()
		}
	}()
	nextURI := func() (string, error) {
		link, err := b.DB.Set.Link(ctx)
		if err != nil {
			return "", err
		}
		links = append(links, link)
		t.through(link)
		return testmongo.WithDatabase(link.URI(), name), nil
	}
	var s stages
	o := harness.Options{Lease: lab.DefaultLease, Tasks: c.keys * replicas, Recorder: []string{"--period", c.period}}
	err := withLinkedRig(ctx, b, "stages", o, nextURI, func(r *rig) error {
		for range c.rounds {
			l, err := r.lose(ctx, harness.Guard, syscall.SIGTERM)
			if err != nil {
				return err
			}
			s.add(l, t)
		}
		return nil
	})
	return s, err
}

// add takes the stages of one loss.
func (s *stages) add(l loss, t *tap) {
	for _, key := range l.keys {
		runs := l.h.Runs(key)
		for i, run := range runs {
			if i == 0 || run.Start < l.at || runs[i-1].Start >= l.at {
				continue
			}
			released, claimed := t.handOver(key, runs[i-1].Token, run.Token)
			if released.acked == 0 || claimed.acked == 0 {
				s.missing++
				continue
			}
			s.release = append(s.release, released.acked.Sub(runs[i-1].End))
			s.claim = append(s.claim, claimed.acked.Sub(released.acked))
			s.start = append(s.start, run.Start.Sub(claimed.acked))
		}
	}
}

// all are the hand-overs as wholes.
func (s *stages) all() []time.Duration {
	var all []time.Duration
	for i := range s.release {
		all = append(all, s.release[i]+s.claim[i]+s.start[i])
	}
	return all
}

// handOver finds the writes between two runs. The write of a claim has its token as revision. The release is the last
// write before it, of the run before, that leaves no owner.
func (t *tap) handOver(key string, before, after int64) (released, claimed lockWrite) {
	for _, w := range t.of(key) {
		switch {
		case w.owned && w.rev == after && w.token == after && claimed.acked == 0:
			claimed = w
		case !w.owned && w.rev > before && w.rev < after && w.rev > released.rev:
			released = w
		}
	}
	return released, claimed
}
