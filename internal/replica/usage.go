package replica

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
)

// measureCPU has the guard measure the processor time of commands while the weights of a group follow it.
func (r *Replica) measureCPU(ctx context.Context) {
	again := time.NewTicker(r.cfg.Weights(weights.Load).Look)
	defer again.Stop()
	var used <-chan wire.Used
	if r.cfg.Guard != nil {
		used = r.cfg.Guard.Used()
	}
	said := false
	var m usageMeter
	for {
		select {
		case <-again.C:
			switch {
			case !slices.ContainsFunc(r.Settings().Groups, followsCPU):
			case used != nil && process.CanFind:
				_ = r.cfg.Guard.MeasureCPU() // without its guard this process exits
			case !said:
				said = true
				r.log.Info("Processor time cannot be measured here: with weightFrom: cpu tasks keep their declared weights")
			}
		case u := <-used:
			r.noteUsage(m.take(u))
		case <-ctx.Done():
			return
		}
	}
}

func followsCPU(g settings.Group) bool { return g.WeightFrom == settings.WeightCPU }

// noteUsage takes the loads of commands. Those of groups whose weights do not follow them are left out.
func (r *Replica) noteUsage(loads map[elect.Key]float64) {
	follows := map[string]bool{}
	for _, g := range r.Settings().Groups {
		follows[g.Name] = followsCPU(g)
	}
	for key, load := range loads {
		if follows[key.Group()] {
			_ = r.SetLoad(key, load) // it is a number
		}
	}
}

// leastInterval is the least time over which processor time is averaged: /proc counts it in hundredths of a second.
const leastInterval = 100 * time.Millisecond

// usageMeter makes loads of the processor time that commands have used. It is a pure machine.
type usageMeter struct{ last wire.Used }

// take returns how many processors each command has used on average since the last call. The hundredths to which loads
// are rounded spare writes for tasks that do next to nothing.
func (m *usageMeter) take(u wire.Used) map[elect.Key]float64 {
	took := u.At.KillerElapsed(m.last.At)
	if took < leastInterval {
		return nil
	}
	before := make(map[uint64]time.Duration, len(m.last.Commands))
	for _, c := range m.last.Commands {
		before[c.ID] = c.CPU
	}
	m.last = u
	loads := map[elect.Key]float64{}
	for _, c := range u.Commands {
		if was, known := before[c.ID]; known {
			loads[c.Key] = math.Round(100*max(0, c.CPU-was).Seconds()/took.Seconds()) / 100
		}
	}
	return loads
}
