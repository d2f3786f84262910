//go:build linux || darwin

package loop

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/protocol"
)

// systemClock reads CLOCK_MONOTONIC and CLOCK_BOOTTIME. On macOS the first goes on while the machine sleeps, and stands
// for both.
type systemClock struct{}

// NewSystemClock is a clock whose readings can be compared among the processes of one machine.
func NewSystemClock() SteadyClock { return systemClock{} }

const clockBoottime = 7 // of linux/time.h

func (systemClock) Now() protocol.Instant {
	mono := readClock(unix.CLOCK_MONOTONIC)
	if runtime.GOOS != "linux" {
		return protocol.Instant{Mono: mono, Boot: mono}
	}
	return protocol.Instant{Mono: mono, Boot: readClock(clockBoottime)}
}

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // the clocks exist since Linux 2.6.39 and macOS 10.12
	}
	return time.Duration(ts.Nano())
}
