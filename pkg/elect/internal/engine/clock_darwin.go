package engine

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// systemClock reads CLOCK_MONOTONIC, which goes on while the machine sleeps: it stands for both clocks.
type systemClock struct{}

// NewSystemClock is a clock whose readings can be compared among the processes of one machine.
func NewSystemClock() SteadyClock { return systemClock{} }

func (systemClock) Now() protocol.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock exists since macOS 10.12
	}
	at := time.Duration(ts.Nano())
	return protocol.Instant{Mono: at, Boot: at}
}
