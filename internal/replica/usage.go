package replica

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/elect"
)

// cpuLoads are the loads of tasks whose weights follow the processor time of their commands.
type cpuLoads struct {
	guard    Guard         // measures it; nil: nobody does
	every    time.Duration // between two measurements
	settings *settingsInForce
	set      func(key elect.Key, load float64) error // fails where the load is no number
	log      logr.Logger
}

// measure has the guard measure the processor time while the weights of a group follow it, until ctx ends.
func (c *cpuLoads) measure(ctx context.Context) {
	again := time.NewTicker(c.every)
	defer again.Stop()
	said := false
	for {
		select {
		case <-again.C:
			switch {
			case !slices.ContainsFunc(c.settings.get().Groups, followsCPU):
			case c.guard != nil && process.CanFind:
				_ = c.guard.MeasureCPU() // without its guard this process exits
			case !said:
				said = true
				c.log.Info("Processor time cannot be measured here: with weightFrom: cpu tasks keep their declared weights")
			}
		case <-ctx.Done():
			return
		}
	}
}

// keepTaking takes what the guard has measured, until ctx ends.
func (c *cpuLoads) keepTaking(ctx context.Context) {
	for c.guard != nil && ctx.Err() == nil {
		c.take(c.guard.Loads(ctx))
	}
}

func followsCPU(g settings.Group) bool { return g.WeightFrom == settings.WeightCPU }

// take takes the loads of commands. Those of groups whose weights do not follow them are left out.
func (c *cpuLoads) take(loads map[elect.Key]float64) {
	follows := map[string]bool{}
	for _, g := range c.settings.get().Groups {
		follows[g.Name] = followsCPU(g)
	}
	for key, load := range loads {
		if follows[key.Group()] {
			_ = c.set(key, load) // it is a number
		}
	}
}
