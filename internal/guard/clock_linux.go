package guard

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Now reads the machine's two steady clocks. Guard and worker run on one machine, so that an instant read by one means
// the same to the other.
func Now() protocol.Instant {
	return protocol.Instant{Mono: readClock(unix.CLOCK_MONOTONIC), Boot: readClock(unix.CLOCK_BOOTTIME)}
}

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	// Fails only for a clock the kernel does not have; both are older than any kernel that Go runs on.
	_ = unix.ClockGettime(id, &ts)
	return time.Duration(ts.Nano())
}
