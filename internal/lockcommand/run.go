// Package lockcommand runs a command under a lock of its own, as flock(1) does on one machine. It is the worker's side
// of `shardctl lock`: the guard starts the command, ends it at the lease's deadlines, and outlives this process.
//
// The lock is the writing or the reading side of a read-write lock. So shared and exclusive use of one key exclude each
// other, as they do with flock(1). A program has the same lock by [mutex.Locks.RWMutex].
//
// [Run] takes the lock, has the command started, passes signals on, and gives the lock back once nothing of the command
// is left. Its parts: Request is the lock that is asked for, session is what holds it, command is the command while it
// runs, and relay decides which signals the command has to be given.
package lockcommand

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

// Run is one command under a lock. Its fields are set before Do.
type Run struct {
	Request

	Command  []string // program and arguments
	Withheld []string // variables of this process that the command does not get, beyond those that no task gets
	Conflict int      // exit code when the lock was not obtained
	Guard    *worker.Client
	Own      <-chan os.Signal // those sent to this process: SIGTERM, SIGINT, SIGHUP and SIGQUIT
	Open     func(ctx context.Context) (store.Store, error)
	Elector  elect.Config // without its store
	// Report writes what happens, for people. It may be nil.
	Report func(format string, args ...any)
	// Warn writes, for people, what keeps the command waiting. It may be nil.
	Warn func(text string)
}

// Do takes the lock, runs the command, and gives the lock back once nothing of the command is left. It may be called
// once.
func (r *Run) Do(ctx context.Context) Outcome {
	if _, err := process.Resolve(ctx, r.Command[0], os.Environ(), ""); err != nil {
		return cannotStart(err) // waiting for the lock would be of no use
	}
	asked := time.Now()
	s, err := r.obtain(ctx)
	var out Outcome
	if s != nil && err == nil {
		r.report("obtained %s/%s after %v, token %d", Group, r.Key, time.Since(asked), s.held.Token())
		out = r.runCommand(s) //nolint:contextcheck // it works under the hold's context
	} else {
		out = r.notObtained(err, r.Conflict)
	}
	if lockedByOthers(err) {
		r.report("%s/%s is locked by others", Group, r.Key)
	}
	if s == nil || out.abandoned {
		return out
	}
	within := leaveLimit
	if out.Code == CodeRefused && s.held == nil {
		within = leaveRefused
	}
	if err := s.leave(ctx, r.Elector.LeaseDuration, within); err != nil && out.Err == nil {
		out.Err = err
	}
	return out
}

func (r *Run) report(format string, args ...any) {
	if r.Report != nil {
		r.Report(format, args...)
	}
}

// obtain waits for the lock. A signal ends that. A session that it returns with an error has to be left.
func (r *Run) obtain(ctx context.Context) (*session, error) {
	ctx, stop := r.bounded(ctx)
	defer stop()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	type answer struct {
		s   *session
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		s, err := r.open(ctx)
		if err == nil {
			s.held, err = r.take(ctx, mutex.New(s.elector))
		}
		answers <- answer{s, err}
	}()
	var ended error
	for {
		select {
		case a := <-answers:
			if ended != nil {
				a.err = ended
			}
			return a.s, a.err
		case s := <-r.Guard.Signals():
			ended = signalled(s)
		case <-r.Guard.Lost():
			return nil, worker.ErrLost
		}
		giveUp(ended)
	}
}

// runCommand starts the command, and returns once nothing of it is left.
func (r *Run) runCommand(s *session) Outcome {
	hold := s.held.Context()
	id, _ := s.elector.Session() // of the hold, or of one after it: then the hold has ended
	if hold.Err() != nil {
		return r.ended(context.Cause(hold))
	}
	key := elect.Key(Group + "/" + r.Key)
	// Should this process stand still at the lease's end, the guard ends it.
	if err := r.Guard.Announcer.RunInside(hold, key, id); err != nil {
		return guardLost()
	}
	defer func() { _ = r.Guard.Announcer.RunInsideOver(key, id) }()
	files, err := standardFiles()
	if err != nil {
		return cannotStart(err)
	}
	p, err := r.Guard.Commands.StartPassing(hold, taskrun.Command{
		Key: key, Session: id, Token: s.held.Token(), Args: r.Command,
		Environ: environ(os.Environ(), r.Withheld, r.variables(id, s.held.Token())),
		Stdin:   files[0], Stdout: files[1], Stderr: files[2],
	})
	switch {
	case err == nil:
	case hold.Err() != nil:
		return r.ended(context.Cause(hold))
	case errors.Is(err, worker.ErrLost):
		return guardLost()
	default:
		return cannotStart(err)
	}
	c := command{run: r, process: p, hold: hold, relay: relay{shared: r.Guard.SharesGroup()}}
	return c.supervise()
}

// cannotStart is the outcome of a command that cannot be started.
func cannotStart(err error) Outcome {
	hint := "check COMMAND"
	if _, explained := errors.AsType[*process.ExecError](err); explained {
		return Outcome{Code: CodeCannotStart, Err: fmt.Errorf("COMMAND cannot start: %w", err)}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "check its name and PATH"
	case errors.Is(err, fs.ErrPermission):
		hint = "check that it may be executed"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "a script begins with a line such as #!/bin/sh"
	}
	return Outcome{Code: CodeCannotStart, Err: fmt.Errorf("COMMAND cannot start: %w; %s", err, hint)}
}

// standardFiles are copies of this process's standard files, to be passed on.
func standardFiles() ([3]*os.File, error) {
	var files [3]*os.File
	for fd := range files {
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return files, fmt.Errorf("pass on descriptor %d: %w", fd, err)
		}
		files[fd] = os.NewFile(uintptr(duplicate), "standard")
	}
	return files, nil
}

// variables describe the lock to the command.
func (r *Run) variables(session string, token int64) variables.Set {
	return variables.Set{
		variables.Key:          Group + "/" + r.Key,
		variables.FencingToken: strconv.FormatInt(token, 10),
		variables.Instance:     r.Elector.Member.Instance,
		variables.Session:      session,
	}
}

// environ is the command's environment: this process's, without what is kept from tasks as well.
func environ(base, withheld []string, own variables.Set) []string {
	all := variables.Parse(base)
	maps.DeleteFunc(all, func(name, _ string) bool { return variables.Withheld(name, withheld...) })
	maps.Copy(all, own)
	return all.List()
}
