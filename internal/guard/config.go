package guard

import (
	"context"
	"errors"
	"fmt"
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
	// Prepare opens whatever MarkDead needs, ahead of time. It is called once the worker opens its first session,
	// in the background, and again after ever longer pauses as long as it fails. It may be nil.
	Prepare func(ctx context.Context) error
	// Obstructs says whether the worker, named by its PID, keeps all others from the store: one that was stopped
	// within a transaction may. It is asked every T/20 once the lease has run out, must not block, and what it says
	// three times ends the worker. It may be nil.
	Obstructs func(pid int) bool
	// MarkDead writes sessions down as dead, with the remote leases that are still open. It is called when the worker
	// has died and all of its tasks are gone. It is called again until it succeeds or the lease has run out anyway. It
	// must bear sessions that were never inserted and those that are dead already. It must not start processes. It may
	// be nil.
	MarkDead func(ctx context.Context, sessions []Session) error
	// Foreground is for one command that somebody runs and waits for. Signals then reach the worker as they are (see
	// [Client.Signals]). On a terminal worker and command are in the guard's process group, and when the command is
	// stopped, so is the guard.
	Foreground bool
	// Name says in the name of the guard's control group whose it is, such as an instance's. It may be empty.
	Name string
	// Log takes what the guard does. Lines are dropped when it does not keep up.
	Log logr.Logger

	terminal     bool                  // Foreground, with a terminal to be stopped and continued from
	listChildren func() ([]int, error) // process.Children, but for tests
	noCgroups    bool                  // for tests: as where none may be made
}

// withDefaults fills in what Config leaves open.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Path == "" {
		path, err := process.Self()
		if err != nil {
			return cfg, fmt.Errorf("find this program: %w", err)
		}
		cfg.Path = path
	}
	if cfg.Args == nil {
		cfg.Args = os.Args[1:]
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Stdin == nil {
		cfg.Stdin = os.Stdin
	}
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	cfg.terminal = cfg.Foreground && hasTerminal()
	if cfg.listChildren == nil {
		cfg.listChildren = process.Children
	}
	if Present() {
		return cfg, errors.New("this process is a worker already")
	}
	return cfg, nil
}
