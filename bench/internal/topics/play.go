//go:build linux

package topics

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/test/e2e/history"
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

const (
	fresh  = time.Second     // a topic is delivered when it was within so long
	settle = 3 * time.Second // no topic has changed hands for so long: all is settled
)

// pauses follows the deliveries of topics, and notes the longest time between two of each since open.
type pauses struct {
	mu      sync.Mutex
	topics  map[string]*flow
	changed time.Time // when a topic was last delivered by another than before
}

// flow is what is known of one topic.
type flow struct {
	last    delivery
	longest time.Duration   // between two deliveries, since open
	by      map[string]bool // who delivered since open, and just before
}

func newPauses(topics []string) *pauses {
	p := &pauses{topics: map[string]*flow{}}
	for _, topic := range topics {
		p.topics[topic] = &flow{}
	}
	return p
}

// take is for the endpoint.
func (p *pauses) take(d delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.topics[d.topic]
	if f == nil {
		return
	}
	if f.last.by != d.by {
		p.changed = d.at
	}
	if !f.last.at.IsZero() {
		f.longest = max(f.longest, d.at.Sub(f.last.at))
	}
	if f.by != nil {
		f.by[d.by] = true
	}
	f.last = d
}

// open begins a window: what was before counts no more.
func (p *pauses) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.topics {
		f.longest, f.by = 0, map[string]bool{f.last.by: true}
	}
}

// settled says whether each topic is delivered by one that lives, each of those delivers some, and nothing has changed
// for a while.
func (p *pauses) settled(live []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, idle := time.Now(), slices.Clone(live)
	for topic, f := range p.topics {
		switch {
		case now.Sub(f.last.at) > fresh:
			return fmt.Errorf("%s has not been delivered since %v, by %q", topic, f.last.at, f.last.by)
		case !slices.Contains(live, f.last.by):
			return fmt.Errorf("%s was last delivered by %q, which has ended", topic, f.last.by)
		}
		idle = slices.DeleteFunc(idle, func(name string) bool { return name == f.last.by })
	}
	if len(idle) > 0 {
		return fmt.Errorf("%v deliver nothing", idle)
	}
	if rest := now.Sub(p.changed); rest < settle {
		return fmt.Errorf("a topic changed hands %v ago", rest)
	}
	return nil
}

// found are the pauses since open, less the sender's period. Those of topics that were delivered by more than one are
// apart from the others.
func (p *pauses) found(period time.Duration) (moved, stayed []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.topics {
		pause := max(0, f.longest-period)
		if len(f.by) > 1 {
			moved = append(moved, pause)
		} else {
			stayed = append(stayed, pause)
		}
	}
	return moved, stayed
}
