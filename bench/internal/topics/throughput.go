//go:build linux

package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

const (
	partitions = 6
	inFlight   = 1000 // delivered and not acknowledged; the bare client commits after as many
	slots      = 64   // requests of the bare client at once
	batchSize  = 50   // messages in a request, of the subscription in batched mode
	rateTarget = 0.8  // of the bare client's messages a second

	// messages take some seconds. What a client does once, such as opening its connections, counts for much in one.
	messages = 200_000
)

// Throughput measures how many messages a second one subscription delivers, beside a bare client that reads the same
// topic, posts to the same endpoint and commits after as many messages.
func Throughput(ctx context.Context, b *lab.Lab) error {
	r, err := openRig(ctx, b, "throughput")
	if err != nil {
		return err
	}
	defer r.close()
	n := b.Times(messages, messages/4)
	if b.Rounds > 0 {
		n = messages
	}
	if err := r.create(ctx, partitions, "load"); err != nil {
		return err
	}
	if err := r.fill(ctx, "load", partitions, n); err != nil {
		return err
	}
	var ours, batched, bare, plain rates
	for round := range b.Times(3, 1) {
		for _, m := range []struct {
			what    string
			rates   *rates
			deliver func(context.Context) error
		}{
			{"bare client", &bare, func(ctx context.Context) error {
				return r.bare(ctx, fmt.Sprintf("bare-%d", round), true)
			}},
			{"subscription", &ours, func(ctx context.Context) error {
				return r.subscribed(ctx, b, fmt.Sprintf("ours-%d", round), 1)
			}},
			{"subscription with batches", &batched, func(ctx context.Context) error {
				return r.subscribed(ctx, b, fmt.Sprintf("batches-%d", round), batchSize)
			}},
			{"plain client", &plain, func(ctx context.Context) error {
				return r.bare(ctx, fmt.Sprintf("plain-%d", round), false)
			}},
		} {
			took, err := r.timed(ctx, n, m.deliver)
			if err != nil {
				return fmt.Errorf("%s: %w", m.what, err)
			}
			*m.rates = append(*m.rates, float64(n)/took.Seconds())
		}
	}
	o, w := ours.median(), bare.median()
	b.Figure("messages a second of one subscription", o >= rateTarget*w, "≥ 0.8 × a bare client that posts CloudEvents",
		"%.0f, bare %.0f: %.2f ×", o, w, o/w)
	b.Note("the same in batches", "one subscription with batchSize %d: %.0f", batchSize, batched.median())
	b.Note("the same without attributes", "a bare client that posts the body alone: %.0f", plain.median())
	return nil
}

// rates are messages a second, of several rounds.
type rates []float64

func (r rates) median() float64 {
	sorted := slices.Sorted(slices.Values(r))
	return sorted[len(sorted)/2]
}

// timed runs deliver until the endpoint has seen n messages, and returns the time from the first to the last.
func (r *rig) timed(ctx context.Context, n int, deliver func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("not all messages came"))
	defer cancel()
	var first time.Time
	count, all := 0, make(chan time.Duration, 1)
	r.endpoint.note(func(d delivery) {
		if count == 0 {
			first = d.at
		}
		if count < n && count+d.messages >= n {
			all <- d.at.Sub(first)
		}
		count += d.messages
	})
	defer r.endpoint.note(nil)
	going, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- deliver(going) }()
	select {
	case took := <-all:
		stop()
		return took, <-ended
	case err := <-ended:
		stop()
		return 0, fmt.Errorf("it ended early: %w", err)
	case <-ctx.Done():
		stop()
		return 0, errors.Join(context.Cause(ctx), <-ended)
	}
}

// subscribed is one replica with one subscription, with so many messages in a request at most, until ctx ends.
func (r *rig) subscribed(ctx context.Context, b *lab.Lab, name string, batchSize int) error {
	c, err := r.cluster(b, quiet)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := r.replica(ctx, c, name, fmt.Sprintf(`groups:
  - name: load
    tasks:
      - name: load
        kafka: {brokers: %q, topic: load, group: %s}
        deliver: {http: {url: %q, batchSize: %d}}
        maxInFlight: %d
`, r.broker.Addr(), name, r.endpoint.url+"/load", batchSize, inFlight)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// bare is one consumer that posts what it reads, so many at once, and commits when all of a fetch is done, until ctx
// ends.
func (r *rig) bare(ctx context.Context, group string, events bool) error {
	p, err := r.start(member{
		group: group, topics: "load", protocol: classic, session: 45 * time.Second, slots: slots,
		events: events,
	}, group)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return p.end(syscall.SIGKILL)
	case err := <-p.done:
		p.done <- err
		return fmt.Errorf("the bare client ended: %w", err)
	}
}
