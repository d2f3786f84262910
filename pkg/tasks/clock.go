package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// moment is a point in time by two clocks. The wall clock is for ticks and for people, and may be set at any time; the
// steady one is for pauses.
type moment struct{ wall, steady time.Time }

// readClocks reads both clocks.
func readClocks() moment { return moment{wall: wallclock.Now(), steady: time.Now()} }
