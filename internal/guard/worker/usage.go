package worker

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/pkg/elect"
)

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
