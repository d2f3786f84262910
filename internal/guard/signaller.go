package guard

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// signaller signals processes that were seen one by one, beside the loop. A task may have left thousands, and each
// takes a few system calls: in the loop they would keep the worker without a sign of the guard's life.
type signaller struct {
	mu      sync.Mutex
	queue   []signalProcs
	wake    chan struct{} // has an element when something was added
	refused chan refusal
	closed  chan struct{}
}

// refusal is which processes of a command may not be sent SIGKILL, of those that a [signalProcs] was for.
type refusal struct {
	id   uint64
	pids []int
}

func newSignaller() *signaller {
	return &signaller{wake: make(chan struct{}, 1), refused: make(chan refusal), closed: make(chan struct{})}
}

// add has processes signalled. SIGKILL takes the place of one that waits for the same command: a scan has found the
// processes again.
func (s *signaller) add(e signalProcs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, waits := range s.queue {
		if e.signal == unix.SIGKILL && waits.signal == unix.SIGKILL && waits.id == e.id {
			s.queue[i] = e
			return
		}
	}
	s.queue = append(s.queue, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *signaller) take() (e signalProcs, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return e, false
	}
	e = s.queue[0]
	s.queue = s.queue[1:]
	return e, true
}

// run signals what is added, until close.
func (s *signaller) run() {
	for {
		select {
		case <-s.wake:
		case <-s.closed:
			return
		}
		for e, ok := s.take(); ok; e, ok = s.take() {
			refused := e.send()
			if e.signal != unix.SIGKILL {
				continue
			}
			select {
			case s.refused <- refusal{e.id, refused}:
			case <-s.closed:
				return
			}
		}
	}
}

func (s *signaller) close() { close(s.closed) }

// send signals the processes, and returns those that this process has no right to signal.
func (e signalProcs) send() (refused []int) {
	for _, p := range e.procs {
		if errors.Is(p.Signal(e.signal), unix.EPERM) {
			refused = append(refused, p.PID)
		}
	}
	return refused
}
