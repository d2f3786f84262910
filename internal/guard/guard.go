// Package guard is the parent process of a replica. `shardctl run` is two processes: a small guard, which in a
// container is PID 1, and a worker. The worker is the same binary executed again, and does everything else. The guard
// starts and ends the commands of tasks on the worker's orders, holds the deadlines of its sessions, and outlives it.
//
//	guard ──(socket pair)── worker
//	  ├── task (a process group of its own)
//	  └── task
//
// What the guard holds to:
//
//   - It starts a command only while the session's renewal deadline has not passed.
//
//   - A command that is stopped, or ended by itself, is gone only when nothing of it is left. That is its control
//     group, where the guard may make one: see cgroups. It is also its process group, its descendants, and orphans that
//     carry its SHARDCTL_KEY, SHARDCTL_SESSION and SHARDCTL_FENCING_TOKEN in their environment.
//
//   - At a session's deadline everything of it is killed, whether the worker can still say so or not.
//
//   - A worker in which tasks still run at a session's X is killed itself. It may be frozen, and go on later.
//
//   - When the worker dies, all tasks are killed at once. Once they are gone its sessions are marked dead, so that no
//     other replica waits for the lease to run out.
//
//   - When the guard dies, the worker kills what it can find and exits without marking anything.
//
//   - What a guard that was killed left in control groups, the next one that starts beside it ends.
//
//   - What it may not signal (a setuid program's processes, where there are no control groups) keeps its key. The guard
//     of a dead worker then renews the session in its place and frees the other keys, until that has ended or a second
//     signal comes.
//
// What it cannot hold without control groups is a process that hid its environment (env -i) and left its group and
// parent. It is found only at a deadline or when the worker dies, when everything goes. Where there is no subreaper
// (everywhere but on Linux) a task is its process group and nothing else. When guard and worker are killed together
// outside a container, direct children die by a death signal (Linux), grandchildren may live.
//
// The core decides, and is pure: it takes what happened and the time, and returns effects. Its parts are leases (how
// far each session's lease has run out), commands (what runs, and what of it is left), shutdown (signals, time limits,
// the worker's end) and obstruction. The loop carries events to it, and the executor carries out the effects. Beside
// them children reaps and lists processes, cgroups keeps control groups, and marking marks sessions dead. The worker's
// side is package worker, and what both agree on is package wire.
//
// Nothing here blocks on the other process. What is to be sent is queued, and deadlines in the queue are replaced by
// newer ones. A guard that is silent for a quarter of the lease counts as gone.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
)

// ExitLeaseLost is the exit status after a lease that was lost while work went on: EX_TEMPFAIL of sysexits.h.
const ExitLeaseLost = 75

// ExitCrashed is the exit status after a crash of the worker: EX_SOFTWARE of sysexits.h.
const ExitCrashed = 70

// ErrWorkerDied says that a worker in the foreground was killed or crashed, and that its command was killed.
var ErrWorkerDied = errors.New("the process that held the lease was killed or crashed, and the command was killed")

// Run starts the worker and does the guard's work until it has ended and nothing of its tasks is left. It returns the
// worker's exit status, 128+n when signal n ended it, [ExitCrashed] when it crashed. The error says why the worker could
// not be started, or why its sessions could not be marked; the status then stands all the same.
//
// With Foreground a worker that was killed or crashed is [ErrWorkerDied], and the status [ExitLeaseLost].
//
// Run takes over the process: its signals and every child it has or gets. Call it once, from a program that starts no
// processes by itself. The end of ctx counts as a first SIGTERM. SIGPIPE is left to that program, whose log it is. It
// must be caught and not ignored: every command would inherit that.
func Run(ctx context.Context, cfg Config) (exitCode int, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return 1, err
	}
	if err := process.BecomeSubreaper(); err != nil {
		return 1, err
	}
	l := newLoop(cfg)
	exitCode, err = l.run(ctx)
	if cfg.Foreground && l.core.shutdown.worker.wasCut() {
		err = errors.Join(ErrWorkerDied, err)
	}
	return exitCode, err
}

// Config is what a guard needs to know. The worker sends the rest.
type Config struct {
	// Path and Args are the worker's program and its arguments without the program's name; by default this program
	// with its own arguments.
	Path string
	Args []string
	// Env is the worker's environment; by default this process's.
	Env []string
	// Stdin, Stdout and Stderr are the worker's; by default this process's.
	Stdin, Stdout, Stderr *os.File
	// Prepare opens whatever MarkDead needs, ahead of time. It is called once the worker opens its first session,
	// in the background, and again after ever longer pauses as long as it fails. It may be nil.
	Prepare func(ctx context.Context) error
	// Obstructs says whether the worker, named by its PID, keeps all others from the store: one that was stopped
	// within a transaction may. It is asked every T/20 once the lease has run out, must not block, and what it says
	// three times ends the worker. It may be nil.
	Obstructs func(pid int) bool
	// MarkDead writes sessions down as dead, with the remote leases that are still open. It is called when the worker
	// has died and all of its tasks are gone. It is called again until it succeeds or the lease has run out anyway. It
	// must bear sessions that were never inserted and those that are dead already. It must not start processes. It may
	// be nil.
	MarkDead func(ctx context.Context, sessions []electing.Session) error
	// KeepSession stands in for a worker that has died, as [electing.Keep] does: runs names the keys on which
	// something still works. It is called every T/10 while processes of the worker's tasks may not be signalled. It may
	// be nil: then others take those keys once the lease is over.
	KeepSession func(ctx context.Context, session string, runs func(elect.Key) bool) error
	// Foreground is for one command that a user runs and waits for. Signals then reach the worker as they are. On a
	// terminal worker and command are in the guard's process group, and when the command is stopped, so is the guard.
	Foreground bool
	// Name says in the name of the guard's control group whose it is, such as an instance's. It may be empty.
	Name string
	// Log takes what the guard does. Lines are dropped when it does not keep up.
	Log logr.Logger

	terminal     bool                  // Foreground, with a terminal to be stopped and continued from
	listChildren func() ([]int, error) // process.Children, but for tests
	noCgroups    bool                  // for tests: as where none may be made
}

// withDefaults fills in what Config leaves open.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Path == "" {
		path, err := process.Self()
		if err != nil {
			return cfg, fmt.Errorf("find this program: %w", err)
		}
		cfg.Path = path
	}
	if cfg.Args == nil {
		cfg.Args = os.Args[1:]
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Stdin == nil {
		cfg.Stdin = os.Stdin
	}
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	cfg.terminal = cfg.Foreground && hasTerminal()
	if cfg.KeepSession == nil {
		cfg.KeepSession = keepNothing
	}
	if cfg.listChildren == nil {
		cfg.listChildren = process.Children
	}
	if wire.IsWorker() {
		return cfg, errors.New("this process is a worker already")
	}
	return cfg, nil
}

// startWorker executes the worker with one end of a new socket pair and returns the other.
func startWorker(cfg Config, cgroup process.Cgroup) (int, *wire.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	ours := os.NewFile(uintptr(pair[0]), "worker")
	theirs := os.NewFile(uintptr(pair[1]), "guard")
	defer func() { _ = theirs.Close() }()
	handover := wire.Handover{FD: wire.WorkerFD, PID: os.Getpid(), Cgroup: cgroup}
	pid, err := process.StartLasting(process.Spec{
		Path: cfg.Path, Args: slices.Concat(os.Args[:1], cfg.Args), Env: handover.AddTo(cfg.Env),
		Stdin: cfg.Stdin, Stdout: cfg.Stdout, Stderr: cfg.Stderr, Extra: []*os.File{theirs},
		SameGroup: cfg.terminal,
	})
	if err != nil {
		_ = ours.Close()
		return 0, nil, fmt.Errorf("start the worker: %w", err)
	}
	conn, err := wire.NewConn(ours)
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, nil, err
	}
	return pid, conn, nil
}
