//go:build linux

package harness

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// spawn starts a process that is killed when the test process dies, however that dies. A parent-death signal fires when
// the thread that forked ends, and Go ends threads as it likes; so all are started from one that never does.
func spawn(cmd *exec.Cmd) error { return spawnWith(cmd, &syscall.SysProcAttr{Setpgid: true}) }

// spawnWith is spawn for a process that is no group of its own.
func spawnWith(cmd *exec.Cmd, attr *syscall.SysProcAttr) error {
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	done := make(chan error)
	spawner() <- func() { done <- cmd.Start() }
	return <-done
}

var spawner = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked
		for request := range requests {
			request()
		}
	}()
	return requests
})
