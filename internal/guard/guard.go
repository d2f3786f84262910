package guard

import (
	"context"
	"errors"

	"github.com/shardctl/shardctl/internal/process"
)

// ErrWorkerDied says that a worker in the foreground was killed, and its command with it.
var ErrWorkerDied = errors.New("the process that held the lease was killed, and the command with it")

// Run starts the worker and does the guard's work until it has ended and nothing of its tasks is left. It returns the
// worker's exit status, 128+n when signal n ended it. The error says why the worker could not be started, or why its
// sessions could not be marked; the status then stands all the same.
//
// With Foreground a worker that did not end by itself is [ErrWorkerDied], and the status [ExitLeaseLost].
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
	l := newLoop(cfg)
	exitCode, err = l.run(ctx)
	if cfg.Foreground && l.shutdown.died != nil && !l.shutdown.bye && !l.shutdown.byItself {
		return ExitLeaseLost, errors.Join(ErrWorkerDied, err)
	}
	return exitCode, err
}
