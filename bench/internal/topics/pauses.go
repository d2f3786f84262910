//go:build linux

package topics

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

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
