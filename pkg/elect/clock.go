package elect

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Instant is one reading of the machine's two steady clocks.
type Instant = protocol.Instant

// Clock reads the machine's steady clocks. Tests give one that runs at another rate; everybody else uses the default.
type Clock interface {
	Now() Instant
}

// goClock reads time.Now alone.
type goClock struct{ start time.Time }

// GoClock is a Clock made of time.Now alone: it does not notice that the machine slept where CLOCK_MONOTONIC does not.
// Its readings mean something only together with others of the same GoClock. It follows the clock of testing/synctest.
func GoClock() Clock { return goClock{time.Now()} }

func (c goClock) Now() Instant {
	d := time.Since(c.start) + time.Hour // never near zero: the zero Instant means never
	return Instant{Mono: d, Boot: d}
}
