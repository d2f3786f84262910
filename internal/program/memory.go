package program

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/sleep"
)

// garbagePercent is how much garbage there may be, in percent of the memory in use. With Go's own 100 a replica at rest
// that owns 10,000 tasks takes an eighth more.
const garbagePercent = 50

// collectEarly has garbage collected at [garbagePercent], unless GOGC in the environment says otherwise, and gives back what
// reading the configuration took.
func collectEarly() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	giveBack()
}

// giveBackEvery is how often a replica gives memory back that it does not use. Each time takes a collection of garbage.
const giveBackEvery = 30 * time.Second

// giveBack returns memory to the system that is not used now: of the heap, and pages of the program's file.
func giveBack() {
	debug.FreeOSMemory()
	process.ReleaseProgramPages()
}

// keepGivingBack calls [giveBack] from time to time, until ctx ends. A start, a reload or a burst of work takes far more
// memory than what follows, and Go itself gives it back too slowly for a replica that then rests. There may be many of
// these on a machine.
func keepGivingBack(ctx context.Context) {
	for sleep.For(ctx, giveBackEvery) == nil {
		giveBack()
	}
}
