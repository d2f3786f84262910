//go:build !linux

package guard

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Now reads the machine's steady clock, which stands for both where there is no second one.
func Now() protocol.Instant {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every unix has this clock
	at := time.Duration(ts.Nano())
	return protocol.Instant{Mono: at, Boot: at}
}
