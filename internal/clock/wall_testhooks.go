//go:build testhooks

package clock

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// EnvFile names the file with the milliseconds that the clock is off.
const EnvFile = "SHARDCTL_TEST_CLOCK_FILE"

// Wall reads the wall clock, off by what the file says: not at all without one.
func Wall() time.Time { return time.Now().Round(0).Add(offset()) }

func offset() time.Duration {
	data, err := os.ReadFile(os.Getenv(EnvFile))
	if err != nil {
		return 0
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0 // it is being written
	}
	return time.Duration(ms) * time.Millisecond
}
