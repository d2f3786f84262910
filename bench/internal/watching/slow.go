//go:build linux

package watching

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/test/e2e/harness"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

const (
	slowWatchers = 256
	manyTasks    = 100_000
	// slowTarget is how much memory slow watchers may take in all, in bytes.
	slowTarget = 128 << 20
)

// extremes are the most that was seen within a window.
type extremes struct {
	memory  int64         // of the worker
	sockets int64         // of all of this machine
	age     time.Duration // of the watched replica's heartbeat, as the other one sees it
}

// SlowWatchers measures what watchers that do not read take of a replica that knows a hundred thousand tasks. None of
// them has an owner: it is the list that is large. A few others change their owners all the time.
func SlowWatchers(ctx context.Context, b *lab.Lab) error {
	window := time.Minute
	if b.Quick {
		window = 30 * time.Second
	}
	return withPair(ctx, b, manyTasks, "pool: none", func(p *pair) error {
		changing, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		var moved atomic.Int64
		go func() { done <- p.change(changing, harness.Group, movable, &moved) }()
		before, err := p.worst(ctx, window)
		var during extremes
		if err == nil {
			siege := watchSlowly(ctx, p.watched.Client.Server, slowWatchers)
			during, err = p.worst(ctx, window)
			b.Note("  slow watchers", "%d connections of %d at once, %d cut off while they read; %d changes",
				siege.begun.Load(), slowWatchers, siege.lost.Load(), moved.Load())
			siege.leave()
		}
		stop()
		if err := errors.Join(err, <-done); err != nil {
			return err
		}
		b.Figure(fmt.Sprintf("%d slow watchers, %d tasks, memory", slowWatchers, manyTasks),
			during.memory-before.memory < slowTarget, fmt.Sprintf("< %.0f MiB more", mib(slowTarget)),
			"%.1f MiB more than %.1f; %.1f MiB more in the kernel, at both ends of the sockets",
			mib(during.memory-before.memory), mib(before.memory), mib(during.sockets-before.sockets))
		slack := p.Lease / 20
		b.Figure(fmt.Sprintf("%d slow watchers, heartbeats", slowWatchers), during.age <= before.age+slack,
			fmt.Sprintf("at most a twentieth of the lease (%v) later than without", slack),
			"the oldest was %s, without watchers %s", lab.MS(during.age), lab.MS(before.age))
		return nil
	})
}

// worst looks for a while.
func (p *pair) worst(ctx context.Context, window time.Duration) (extremes, error) {
	var worst extremes
	for begin := time.Now(); time.Since(begin) < window; {
		if err := lab.Pause(ctx, 250*time.Millisecond); err != nil {
			return worst, err
		}
		memory, err := p.resident()
		if err != nil {
			return worst, err
		}
		kernel, err := sockets()
		if err != nil {
			return worst, err
		}
		age, err := p.age(ctx)
		if err != nil {
			return worst, err
		}
		worst = extremes{max(worst.memory, memory), max(worst.sockets, kernel), max(worst.age, age)}
	}
	return worst, nil
}

// age is that of the watched replica's newest heartbeat, as the other one sees it.
func (p *pair) age(ctx context.Context) (time.Duration, error) {
	text, err := p.other.Client.Read(ctx, "/api/v1/instances?instance="+p.watched.Name)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct {
			HeartbeatAgeSeconds float64 `json:"heartbeatAgeSeconds"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, fmt.Errorf("%d instances called %s", len(list.Items), p.watched.Name)
	}
	return time.Duration(list.Items[0].HeartbeatAgeSeconds * float64(time.Second)), nil
}
