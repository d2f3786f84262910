package replica

import (
	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Config is what a Replica is made of.
type Config struct {
	Settings *settings.Settings
	// Metrics counts what the replica does; nil: nothing is counted.
	Metrics Metrics
	// Guard runs commands, and is informed of what must be known should this process die; nil: commands are children of
	// this process.
	Guard Guard
	// Left are sessions of the process before this one: nothing of them is left.
	Left []electing.Session
	// Registry holds the callbacks; nil: none.
	Registry *tasks.Registry
	// Functions are what discover may call; nil: none.
	Functions discover.Functions
	// Application makes the application beside the replica, where the settings have one; nil: there is none.
	Application func(ApplicationConfig) Application
	// Output gets what commands write.
	Output taskrun.Sink
	Logger logr.Logger
	// Tracer makes spans of claims, hand-overs and runs; nil: none are made.
	Tracer Tracer
	// Weights say how weights follow what is measured; nil: as [weights.Measure.Rules] has it.
	Weights func(weights.Measure) weights.Rules
	// Clock is that of the elector, and of what an application is told; nil: the machine's.
	Clock elect.Clock
	// OnStuck is called when runs outlived the lease: the process must go.
	OnStuck func(keys []elect.Key)

	Version  string // of this program
	Revision string // of this program or its pod template: while two run side by side, keys prefer the newer
}
