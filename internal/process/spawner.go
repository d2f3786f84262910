package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// CloseFiles closes files that nothing was buffered for, such as the ends of pipes: there is no error to learn. A nil
// one is skipped.
func CloseFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
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

// maxProbes bounds the file systems' answers that are waited for at once. Each that hangs keeps one thread.
const maxProbes = 1024

var probes = make(chan struct{}, maxProbes)

// Resolve finds a command as a shell would, in the PATH of env, and returns the path to execute. A name with a slash is
// taken as it is: relative to dir, in which the command is to run. It returns once the file systems have answered for
// program and directory, or when ctx ends. So a mount that hangs (a dead NFS server) holds up this call alone.
//
// Whether the program can be executed is left to the kernel: of what is wrong with it only its absence from PATH is an
// error.
func Resolve(ctx context.Context, name string, env []string, dir string) (path string, err error) {
	type answer struct {
		path string
		err  error
	}
	select {
	case probes <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	answered := make(chan answer, 1)
	go func() { // it ends when the file system answers, which may be long after ctx has ended
		defer func() { <-probes }()
		var a answer
		if a.path, a.err = lookPath(name, env, dir); a.err == nil {
			probe(a.path, dir)
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		return a.path, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("the file system has not answered for %s: %w", name, context.Cause(ctx))
	}
}

func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := os.Getenv("PATH")
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		file, err := filepath.Abs(filepath.Join(place, name))
		if err != nil {
			continue // this process's own directory is gone
		}
		info, err := os.Stat(file) //nolint:gosec // G703: running what is configured is what this is for
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH: %w", name, os.ErrNotExist)
}

// probe does what chdir and execve will do first. It enters the directory, opens the program and reads its beginning,
// and the interpreter's of a script. Errors do not matter here, only that an answer comes.
func probe(path, dir string) {
	if dir != "" {
		_, _ = os.Stat(dir + "/.")
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	for range 4 { // scripts whose interpreter is a script: the kernel follows four
		interpreter, ok := strings.CutPrefix(beginning(path), "#!")
		if !ok {
			return
		}
		line, _, _ := strings.Cut(interpreter, "\n")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return
		}
		path = fields[0]
	}
}

// beginning is what the kernel reads of a program to find its format.
func beginning(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "" // opening a FIFO would wait for its writer; executing one fails
	}
	f, err := os.Open(path) //nolint:gosec // G304: as above
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	return string(head[:n])
}
