package balancer

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// drain gives everything up, each key to whom the plan gives it.
func (s situation) drain(d *decision) {
	next := d.plan.Owners(d.input)
	for key, h := range s.view.Held {
		if h.GiveUp {
			continue
		}
		move := elect.HandOver{Key: key, Next: next[key], Reason: elect.ReasonShutdown}
		if s.policy.RestartGrace > 0 || move.Next == s.view.Session {
			move.Next = ""
		}
		d.give = append(d.give, move)
	}
	slices.SortFunc(d.give, func(a, b elect.HandOver) int { return cmp.Compare(a.Key, b.Key) })
}

const (
	wavePause = 60 * time.Millisecond
	waveLeast = 4
	waves     = 10
)

// pace spreads a drain over a moment: four keys at once, or a tenth of all, each 60 ms, whether those before have ended or not.
// All at once they would wait for each other on their way through the store, and each for longer.
func (h history) pace(d *decision, draining bool, now time.Time) history {
	if !draining || len(d.give) == 0 {
		return h
	}
	if h.wave == 0 {
		h.wave = max(waveLeast, (len(d.give)+waves-1)/waves)
	}
	if rest := wavePause - now.Sub(h.waveAt); rest > 0 {
		d.give, d.again = nil, rest
		return h
	}
	h.waveAt = now
	if len(d.give) > h.wave {
		d.give, d.again = d.give[:h.wave], wavePause
	}
	return h
}
