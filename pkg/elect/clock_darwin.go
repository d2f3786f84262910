package elect

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// systemClock reads CLOCK_MONOTONIC, which goes on while the machine sleeps: it stands for both clocks.
type systemClock struct{}

// SystemClock is the machine's CLOCK_MONOTONIC and CLOCK_BOOTTIME where there are such, else [GoClock]. Readings of
// several processes of one machine can be compared.
func SystemClock() Clock { return systemClock{} }

func (systemClock) Now() protocol.Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the clock exists since macOS 10.12
	}
	at := time.Duration(ts.Nano())
	return protocol.Instant{Mono: at, Boot: at}
}
