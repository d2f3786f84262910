package guard

import (
	"context"

	"github.com/shardctl/shardctl/internal/process"
)

// Run starts the worker and does the guard's work until it has ended and nothing of its tasks is left. It returns the
// worker's exit status, 128+n when signal n ended it. The error says why the worker could not be started, or why its
// sessions could not be marked; the status then stands all the same.
//
// Run takes over the process: its signals and every child it has or gets. Call it once, from a program that starts no
// processes by itself. The end of ctx counts as a first SIGTERM.
func Run(ctx context.Context, cfg Config) (exitCode int, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return 1, err
	}
	if err := process.BecomeSubreaper(); err != nil {
		return 1, err
	}
	return newLoop(cfg).run(ctx)
}
