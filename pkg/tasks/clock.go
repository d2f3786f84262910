package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// moment is a point in time by two clocks: the wall clock, for ticks and for people, which may be set at any time;
// and the steady one, for pauses.
type moment struct{ wall, steady time.Time }

// readClocks reads both clocks.
func readClocks() moment { return moment{wall: wallclock.Now(), steady: time.Now()} }
