//go:build unix

package testprocess

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrMissing says that a server cannot be provided. Its text goes on with what to install.
var ErrMissing = errors.New("no server for the tests")

// Software is the programs of one kind of server. Its methods know nothing of a running process.
type Software interface {
	// Provide finds the programs or fetches them. Its error wraps [ErrMissing] when something is to be installed.
	Provide(ctx context.Context) error
	// Ports is how many ports it listens on; the first is that of clients.
	Ports() int
	// Prepare writes what the programs read, before each start.
	Prepare(ctx context.Context, s *Site) error
	// Commands are the processes, in the order of their start; the last is the server.
	Commands(s *Site) []Command
	// Ready returns nil once clients are served. Its ctx ends after a second; it is called again until it returns nil.
	Ready(ctx context.Context, s *Site) error
}

// Unprivileged is a [Software] that refuses to run as root. Where this process is root, it runs as the user nobody, who
// also owns its directory.
type Unprivileged interface {
	Software
	Unprivileged()
}

// Command is one process to start.
type Command struct {
	Args []string       // the program first
	Env  []string       // added to that of this process
	Stop syscall.Signal // asks for an orderly end; 0 means SIGTERM
}

// systemDirs are where system programs are that need not be in PATH.
var systemDirs = []string{"", "/usr/sbin", "/sbin", "/usr/local/sbin"}

// Program finds the first of these programs in PATH or in the directories of system programs. kind is the server that
// needs it, and debian the package that has it.
func Program(kind, debian string, names ...string) (string, error) {
	return ProgramIn(systemDirs, kind, debian, names...)
}

// ProgramIn is [Program] for programs that are in these directories; the empty one means PATH. Directories may be
// patterns, of which the last match in order counts: /usr/lib/postgresql/*/bin.
func ProgramIn(dirs []string, kind, debian string, names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range dirs {
			if matches, err := filepath.Glob(dir); dir != "" && err == nil && len(matches) > 0 {
				dir = matches[len(matches)-1]
			}
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", Missing(kind, "%s is not installed (Debian: apt-get install --no-install-recommends %s)",
		strings.Join(names, " or "), debian)
}

// Missing is an error that wraps [ErrMissing].
func Missing(kind, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrMissing, kind, fmt.Errorf(format, args...))
}
