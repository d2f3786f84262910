package replica

import (
	"context"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
)

// measureCPU has the guard measure the processor time of commands while the weights of a group follow it.
func (r *Replica) measureCPU(ctx context.Context) {
	again := time.NewTicker(r.cfg.Weights(weights.Load).Look)
	defer again.Stop()
	said := false
	for {
		select {
		case <-again.C:
			switch {
			case !slices.ContainsFunc(r.Settings().Groups, followsCPU):
			case r.cfg.Guard != nil && process.CanFind:
				_ = r.cfg.Guard.MeasureCPU() // without its guard this process exits
			case !said:
				said = true
				r.log.Info("Processor time cannot be measured here: with weightFrom: cpu tasks keep their declared weights")
			}
		case <-ctx.Done():
			return
		}
	}
}

// noteCPU takes what the guard has measured, until ctx ends.
func (r *Replica) noteCPU(ctx context.Context) {
	for r.cfg.Guard != nil && ctx.Err() == nil {
		r.noteUsage(r.cfg.Guard.Loads(ctx))
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
