package elect

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// systemClock reads CLOCK_MONOTONIC and CLOCK_BOOTTIME.
type systemClock struct{}

// SystemClock is the machine's CLOCK_MONOTONIC and CLOCK_BOOTTIME where there are such, else [GoClock]. Readings of
// several processes of one machine can be compared.
func SystemClock() Clock { return systemClock{} }

func (systemClock) Now() protocol.Instant {
	return protocol.Instant{Mono: read(unix.CLOCK_MONOTONIC), Boot: read(unix.CLOCK_BOOTTIME)}
}

func read(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // both clocks exist since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
