package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// ErrClosed says that [Spawner.Close] came before the start.
var ErrClosed = errors.New("spawner is closed")

// Spec is a process to start.
type Spec struct {
	Path string   // as [Resolve] returns it
	Args []string // Args[0] included
	Env  []string // NAME=value, complete
	Dir  string   // empty: this process's
	// Stdin, Stdout and Stderr are the child's; nil is the null device. The caller keeps its own copies.
	Stdin, Stdout, Stderr *os.File
	Extra                 []*os.File // further files, from descriptor 3 on
}

// Spawner starts processes from one thread. A child's death signal comes when the thread that forked it ends, which
// need not be when the process does: so that thread has to stay. Methods may be called concurrently.
//
// The fork itself suspends this thread, and with it Go's collector, until the child has executed its program: call
// [Resolve] first, which waits for file systems that hang where only the caller is held up.
type Spawner struct {
	begin sync.Once
	work  chan func()
	done  chan struct{}
	end   sync.Once
}

// NewSpawner makes a spawner. It needs no Close when it never started anything.
func NewSpawner() *Spawner {
	return &Spawner{work: make(chan func()), done: make(chan struct{})}
}

// Close ends the thread. Nothing starts any more, and on Linux the processes that still run are killed.
func (s *Spawner) Close() { s.end.Do(func() { close(s.done) }) }

// Start starts a process as a group of its own and returns its number once it runs. The caller has to reap it. The
// error of a failed chdir or execve wraps a [syscall.Errno].
func (s *Spawner) Start(spec Spec) (pid int, err error) {
	s.begin.Do(func() { go s.thread() })
	result := make(chan struct{})
	start := func() {
		defer close(result)
		pid, err = fork(spec, groupOfItsOwn())
	}
	select {
	case <-s.done:
		return 0, ErrClosed
	default:
	}
	select {
	case s.work <- start:
		<-result
		return pid, err
	case <-s.done:
		return 0, ErrClosed
	}
}

func (s *Spawner) thread() {
	runtime.LockOSThread() // never unlocked: the thread ends with this function
	for {
		select {
		case start := <-s.work:
			start()
		case <-s.done:
			return
		}
	}
}

// StartLasting starts a process as a group of its own that may outlive this one: without a death signal.
func StartLasting(spec Spec) (pid int, err error) {
	return fork(spec, &syscall.SysProcAttr{Setpgid: true})
}

func fork(spec Spec, attr *syscall.SysProcAttr) (int, error) {
	files := append([]*os.File{spec.Stdin, spec.Stdout, spec.Stderr}, spec.Extra...)
	fds := make([]uintptr, len(files))
	var null *os.File
	for i, f := range files {
		if f == nil {
			if null == nil {
				var err error
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return 0, fmt.Errorf("start %s: %w", spec.Path, err)
				}
				defer func() { _ = null.Close() }()
			}
			f = null
		}
		fds[i] = f.Fd()
	}
	//nolint:gosec // G204: running what is configured is what this is for
	pid, err := syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: fds, Sys: attr,
	})
	runtime.KeepAlive(files)
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", spec.Path, err)
	}
	return pid, nil
}
