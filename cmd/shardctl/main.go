// Command shardctl spreads named tasks over the replicas of a service. Each task runs on exactly one of them, under a
// cap, and moves when replicas come, go or die.
package main

import "github.com/shardctl/shardctl/internal/program"

// version and revision are set by the linker for releases.
var (
	version  = "dev"
	revision string
)

func main() { program.Main(program.Options{Version: version, Revision: revision}) }
