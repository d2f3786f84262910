package program

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/process"
)

// giveBackEvery is how often a replica returns memory that it does not use. Each time takes a garbage collection, and
// until then there is more and more to return.
const giveBackEvery = 10 * time.Second

// giveBack returns memory that is not in use now to the system: of the heap, and pages of the program's file.
func giveBack() {
	debug.FreeOSMemory()
	process.ReleaseProgramPages()
}

// keepGivingBack calls giveBack from time to time, until ctx ends. A start, a reload or a burst of work takes far more
// memory than what follows, and Go itself returns it too slowly for a replica that then rests. There may be many of
// these on a machine.
func keepGivingBack(ctx context.Context) {
	for clock.Sleep(ctx, giveBackEvery) == nil {
		giveBack()
	}
}
