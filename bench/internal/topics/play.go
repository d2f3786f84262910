//go:build linux

package topics

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// pause is the pauses of the topics that moved in windows of one kind. stayed is the longest of all others.
type pause struct {
	moved  []time.Duration
	stayed time.Duration
}

func (p *pause) p99() time.Duration { return history.Percentile(p.moved, 99) }

// play is the events of one party.
type play struct {
	party   party
	seen    *pauses
	found   map[string]*pause
	windows windows
}

func (y *play) settled(ctx context.Context) error {
	return lab.Until(ctx, func() error { return y.seen.settled(y.party.live()) })
}

// all plays the events so many times, orderly ones more often, and then one rolling restart of so many.
func (y *play) all(ctx context.Context, rounds, restarts int) error {
	if err := y.settled(ctx); err != nil {
		return err
	}
	for range rounds {
		for _, event := range []func(context.Context) error{y.crash, y.add, y.leave, y.add, y.leave, y.add} {
			if err := event(ctx); err != nil {
				return err
			}
		}
	}
	return y.roll(ctx, restarts)
}

// crash kills the oldest.
func (y *play) crash(ctx context.Context) error {
	return y.during(ctx, crash, func() error { return y.party.end(ctx, y.party.live()[0], syscall.SIGKILL) })
}

// leave stops the oldest in order.
func (y *play) leave(ctx context.Context) error {
	return y.during(ctx, leave, func() error { return y.party.end(ctx, y.party.live()[0], syscall.SIGTERM) })
}

// add starts one.
func (y *play) add(ctx context.Context) error {
	return y.during(ctx, scaleOut, func() error { return y.party.add(ctx) })
}

// roll replaces the n oldest, each when the one before has settled.
func (y *play) roll(ctx context.Context, n int) error {
	return y.during(ctx, rolling, func() error {
		for range n {
			if err := y.party.end(ctx, y.party.live()[0], syscall.SIGTERM); err != nil {
				return err
			}
			if err := y.party.add(ctx); err != nil {
				return err
			}
			if err := y.settled(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// during measures the pauses from an event until all is settled.
func (y *play) during(ctx context.Context, event string, happen func() error) error {
	begin := history.Now()
	y.seen.open()
	if err := happen(); err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	if err := y.settled(ctx); err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	moved, stayed := y.seen.found(period)
	if len(moved) == 0 {
		return fmt.Errorf("%s: no topic moved", event)
	}
	if y.found[event] == nil {
		y.found[event] = &pause{}
	}
	found := y.found[event]
	found.moved = append(found.moved, moved...)
	found.stayed = max(found.stayed, history.Percentile(stayed, 100))
	if event != crash {
		y.windows = append(y.windows, window{begin, history.Now()})
	}
	return nil
}

// windows are those of orderly events.
type windows []window

type window struct{ from, to history.Instant }

// handOvers are the gaps of commands within the windows.
func (w windows) handOvers(h *history.History) []time.Duration {
	var all []time.Duration
	for _, one := range w {
		all = append(all, history.Lengths(h.Gaps(one.from, one.to))...)
	}
	return all
}
