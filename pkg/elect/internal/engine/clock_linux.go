package engine

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// systemClock reads CLOCK_MONOTONIC and CLOCK_BOOTTIME.
type systemClock struct{}

// NewSystemClock is a clock whose readings can be compared among the processes of one machine.
func NewSystemClock() SteadyClock { return systemClock{} }

func (systemClock) Now() protocol.Instant {
	return protocol.Instant{Mono: readClock(unix.CLOCK_MONOTONIC), Boot: readClock(unix.CLOCK_BOOTTIME)}
}

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // both clocks exist since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
