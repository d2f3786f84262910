package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Spec is a process to start.
type Spec struct {
	Path string   // as [Resolve] returns it
	Args []string // Args[0] included
	Env  []string // NAME=value, complete
	Dir  string   // empty: this process's
	// Stdin, Stdout and Stderr are the child's; nil is the null device. The caller keeps its own copies.
	Stdin, Stdout, Stderr *os.File
	Extra                 []*os.File // further files, from descriptor 3 on
	// SameGroup leaves the child in this process's group: a terminal's signals then reach both.
	SameGroup bool
	// Cgroup is the directory of the control group to start the child in, opened; nil: this process's. It needs Linux
	// and clone3, which a seccomp filter may forbid: see [RefusedCgroup].
	Cgroup *os.File
}

// Spawner starts processes from one [Thread], so that they get their death signal when this process dies or Close is
// called, and not before. Methods may be called concurrently.
//
// The fork itself suspends this thread, and with it Go's collector, until the child has executed its program. So call
// [Resolve] first, which waits for file systems that hang where only the caller is held up.
type Spawner struct{ thread *Thread }

// NewSpawner makes a spawner. It needs no Close when it never started anything.
func NewSpawner() *Spawner { return &Spawner{NewThread()} }

// Close ends the thread. Nothing starts any more, and on Linux the processes that still run are killed.
func (s *Spawner) Close() { s.thread.Close() }

// Start starts a process, as a group of its own unless the spec says otherwise, and returns its number once it runs.
// The caller has to reap it. The error of a failed chdir or execve wraps a [syscall.Errno].
func (s *Spawner) Start(spec Spec) (pid int, err error) {
	attr := OwnGroup()
	attr.Setpgid = !spec.SameGroup
	if closed := s.thread.do(func() { pid, err = fork(spec, attr) }); closed != nil {
		return 0, closed
	}
	return pid, err
}

// StartLasting starts a process that may outlive this one: as Start does, without a death signal.
func StartLasting(spec Spec) (pid int, err error) {
	return fork(spec, &syscall.SysProcAttr{Setpgid: !spec.SameGroup})
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
	if spec.Cgroup != nil {
		startIn(attr, spec.Cgroup)
	}
	//nolint:gosec // G204: running what is configured is what this is for
	pid, err := syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: fds, Sys: attr,
	})
	runtime.KeepAlive(files)
	runtime.KeepAlive(spec.Cgroup)
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", spec.Path, err)
	}
	return pid, nil
}

// RefusedCgroup says of an error of Start that it may come from the control group and not from the program: no clone3
// here, a filter that forbids it, no right to the group, or a group that takes no processes.
func RefusedCgroup(err error) bool {
	for _, e := range []error{
		syscall.ENOSYS, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.EBUSY, syscall.EOPNOTSUPP,
		syscall.ENODEV,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
