package process

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// ErrClosed says that [Thread.Close] or [Spawner.Close] came before the start.
var ErrClosed = errors.New("spawner is closed")

// Thread is an operating-system thread that stays until Close. A child's death signal comes when the thread that forked
// it ends, which need not be when the process does. Go ends threads as it likes. Methods may be called concurrently.
type Thread struct {
	begin sync.Once
	work  chan func()
	done  chan struct{}
	end   sync.Once
}

// NewThread makes a thread. It needs no Close when nothing ever ran on it.
func NewThread() *Thread {
	return &Thread{work: make(chan func()), done: make(chan struct{})}
}

// Close ends the thread, without waiting for what runs on it. Nothing runs on it any more, and on Linux the processes
// that were started from it with a death signal get that. It may be called again.
func (t *Thread) Close() { t.end.Do(func() { close(t.done) }) }

// Start starts a command from the thread. After Close the error is [ErrClosed].
func (t *Thread) Start(cmd *exec.Cmd) (err error) {
	if closed := t.do(func() { err = cmd.Start() }); closed != nil {
		return closed
	}
	return err
}

// do runs f on the thread and waits for its end.
func (t *Thread) do(f func()) error {
	t.begin.Do(func() { go t.run(func() {}) })
	select {
	case <-t.done:
		return ErrClosed
	default:
	}
	ended := make(chan struct{})
	select {
	case t.work <- func() { defer close(ended); f() }:
		<-ended
		return nil
	case <-t.done:
		return ErrClosed
	}
}

// run works on a thread that ends with it, and calls locked once it has one. Go parks the main thread rather than end
// it, so that no death signal would come. While that is locked here, another goroutine gets another thread.
func (t *Thread) run(locked func()) {
	runtime.LockOSThread()
	if onMainThread() {
		has := make(chan struct{})
		go t.run(func() { close(has) })
		<-has
		locked()
		runtime.UnlockOSThread()
		return
	}
	locked() // and never unlocked
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.done:
			return
		}
	}
}
