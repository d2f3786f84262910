package simulation

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// Now is the reading of this replica's clock.
func (r *replica) Now() protocol.Instant {
	d := time.Hour + r.base + time.Duration(float64(r.w.now)*r.rate)
	return protocol.Instant{Mono: d, Boot: d}
}

// Moment implements [engine.Clock].
func (r *replica) Moment() protocol.Moment {
	return protocol.Moment{Now: r.Now(), Clock: r.w.clock(), Rev: r.latest}
}

// real is how long a time of this replica's clock truly takes: at least, so that a timer is never early.
func (r *replica) real(d time.Duration) time.Duration {
	return time.Duration(float64(d)/r.rate) + time.Microsecond
}
