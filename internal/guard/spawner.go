package guard

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// order to start one command, as the spawner takes it.
type spawnOrder struct {
	id        uint64
	start     start
	outputs   int
	files     []*os.File
	deadlines Deadlines
}

// spawned is what became of it.
type spawned struct {
	id  uint64
	pid int
	err error
}

// spawn starts one command after the other, from one thread that lives as long as the guard: a death signal is sent
// when the thread that forked ends, not the process. It returns, and ends the thread, when orders is closed.
func spawn(orders <-chan spawnOrder, results chan<- spawned) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	for o := range orders {
		s := spawned{id: o.id, err: err}
		if err == nil {
			s.pid, s.err = o.run(null)
		}
		closeFiles(o.files)
		results <- s
	}
	if null != nil {
		_ = null.Close()
	}
}

func (o spawnOrder) run(null *os.File) (int, error) {
	// The order may have waited behind a slow start. A deadline that moved meanwhile is not seen here, which only refuses
	// too much.
	if o.deadlines.phaseAt(Now()) != phaseHeld {
		return 0, errors.New("the session's renewal deadline has passed")
	}
	stdin, stdout, stderr := o.filesOf(null)
	pid, err := syscall.ForkExec(string(o.start.Path), stringsOf(o.start.Args), &syscall.ProcAttr{ //nolint:gosec // G204: running what the configuration names is what this program is for
		Dir:   string(o.start.Dir),
		Env:   stringsOf(o.start.Env),
		Files: []uintptr{stdin.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   childAttr(),
	})
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", o.start.Path, err)
	}
	return pid, nil
}

func (o spawnOrder) filesOf(null *os.File) (stdin, stdout, stderr *os.File) {
	stdin, stdout, stderr = null, null, null
	files := o.files
	if o.outputs&passedStdin != 0 && len(files) > 0 {
		stdin, files = files[0], files[1:]
	}
	if o.outputs&passedStdout != 0 && len(files) > 0 {
		stdout, files = files[0], files[1:]
	}
	switch {
	case o.outputs&passedStderr == 0:
	case len(files) > 0:
		stderr = files[0]
	default:
		stderr = stdout // one file for both
	}
	return stdin, stdout, stderr
}
