//go:build unix

package testmongo

import (
	"os/exec"
	"runtime"
)

// A spawner starts processes from one operating-system thread that lives as long as the spawner. A parent-death
// signal fires when the thread that forked ends, not the process, and Go ends threads as it likes.
type spawner struct {
	requests chan func()
	ended    chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for f := range s.requests {
			f()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread; what it started and still runs is killed by the kernel.
func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
