package balancer

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// history is what the loop remembers from one decision to the next.
type history struct {
	members []string // sessions that are not dead, in order
	since   time.Time
	began   time.Time
	wave    Wave
}

// follow notes when the membership last changed, clients apart.
func (h history) follow(v *cluster.View, d Declared, now time.Time) history {
	ids := make([]string, 0, len(v.Sessions))
	for i := range v.Sessions {
		if s := &v.Sessions[i]; s.State != record.Dead && !d.client(s) {
			ids = append(ids, s.ID+string(s.State))
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, h.members) || h.since.IsZero() {
		h.members, h.since = ids, now
	}
	if h.began.IsZero() {
		h.began = now
	}
	return h
}

func (h history) calm(v *cluster.View, now time.Time) Calm {
	return Calm{Quiet: now.Sub(h.since), Up: now.Sub(h.began), Outage: v.Outage}
}
