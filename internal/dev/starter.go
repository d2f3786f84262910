package dev

import (
	"os/exec"
	"runtime"
)

// starter starts processes from one thread that lives as long as it does. On Linux a death signal is sent when the
// thread that started a process ends, not when the program does, and Go's threads come and go.
type starter struct {
	requests chan startRequest
	done     chan struct{}
}

type startRequest struct {
	cmd    *exec.Cmd
	answer chan<- error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for r := range s.requests {
			r.answer <- r.cmd.Start()
		}
	}()
	return s
}

// start starts the command.
func (s *starter) start(cmd *exec.Cmd) error {
	answer := make(chan error, 1)
	s.requests <- startRequest{cmd, answer}
	return <-answer
}

// close ends the thread, and with it, on Linux, all that it started. Start must not be called afterwards.
func (s *starter) close() {
	close(s.requests)
	<-s.done
}
