//go:build linux

package harness

import (
	"os/exec"
	"syscall"

	"github.com/shardctl/shardctl/internal/process"
)

// thread starts all processes. It stays, so that they are killed when the test process dies, however that dies.
var thread = process.NewThread()

// spawn starts a process as a group of its own that is killed when the test process dies.
func spawn(cmd *exec.Cmd) error { return spawnWith(cmd, process.OwnGroup()) }

// spawnWith is spawn for a process that is no group of its own.
func spawnWith(cmd *exec.Cmd, attr *syscall.SysProcAttr) error {
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	return thread.Start(cmd)
}
