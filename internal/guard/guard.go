package guard

import (
	"context"
	"os"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/process"
)

// Config is what a guard needs to know. It hears the rest from the worker.
type Config struct {
	// Path and Args are the worker's program and its arguments without the program's name; by default this program
	// with its own arguments.
	Path string
	Args []string
	// Env is the worker's environment; by default this process's.
	Env []string
	// Stdin, Stdout and Stderr are the worker's; by default this process's.
	Stdin, Stdout, Stderr *os.File
	// Prepare opens whatever MarkDead needs, ahead of time. It is called once the worker has said hello, in the
	// background, and again after a pause as long as it fails. It may be nil.
	Prepare func(ctx context.Context) error
	// Obstructs says whether the worker, named by its PID, keeps all others from the store: one that was stopped
	// within a transaction may. It is asked every T/20 once the lease has run out, must not block, and what it says
	// three times ends the worker. It may be nil.
	Obstructs func(pid int) bool
	// MarkDead writes sessions down as dead, with the remote leases that are still open. It is called when the worker
	// has died and all of its tasks are gone, and again until it succeeds or the lease has run out anyway. It must
	// bear sessions that were never inserted and those that are dead already. It must not start processes. It may be
	// nil.
	MarkDead func(ctx context.Context, sessions []Session) error
	// Log takes what the guard does. Lines are dropped when it does not keep up.
	Log logr.Logger

	children func() ([]int, error) // process.Children, but for tests
}

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
