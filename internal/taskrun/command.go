package taskrun

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Command is a process to start: expanded, ready to run.
type Command struct {
	Key     elect.Key
	Session string // the session that holds the key: with Key it marks the processes in their environment
	Token   int64
	Args    []string
	Environ []string // NAME=value, complete
	Dir     string
	// Stdin is what the command reads; nil: nothing. The starter passes it on and closes its own copy before Start
	// returns.
	Stdin *os.File
	// Stdout and Stderr are the writing ends of pipes. The starter passes them on and closes its own copies before
	// Start returns; the caller keeps the reading ends.
	Stdout, Stderr *os.File
	// Answers takes the lines of the standard output; nil: they go to the task's log. A starter has no use for it.
	Answers Answers
	// Notify is the socket for sd_notify readiness, passed to the child by NOTIFY_SOCKET in Environ; nothing here
	// needs to know it.
}

// Answers takes what a command says to the one that started it. Its methods are called by one goroutine, in order.
type Answers interface {
	// Line is given a line of the standard output, without the line end. It says whether that was an answer: what is
	// none goes to the task's log, and so do lines over 1 MiB, without being asked about. It must not block.
	Line(line string) bool
	// Closed says that no line comes any more.
	Closed()
}

// Processes starts commands, each as a process group of its own.
type Processes interface {
	// Start starts a command, of which only Args, Environ, Dir, Stdin and Answers are looked at. What it writes goes to
	// the task's log, less its answers. It waits for its turn when many commands are starting. On an error nothing of
	// the command is left. End must be called in the end.
	Start(ctx context.Context, c Command) (Child, error)
}

// Child is a command that a run has started.
type Child interface {
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// End stops what is left of the command, in the way and time that the task's stop says. It returns when nothing of
	// it is left. Once ctx ends because the lease is lost, that is in time for the lease's deadline. Once it ends with
	// a cause that wraps ErrNoTime, SIGKILL comes at once.
	End(ctx context.Context) tasks.Ending
}

// ErrNoTime is the cause of a context by which [Child.End] learns that the task has no time left to stop in.
var ErrNoTime = errors.New("no time is left to stop in")

// Starter starts commands, each as a process group of its own. Under `shardctl run` that is the guard, which outlives
// the worker; in somebody's own service it is a starter of the service's own process.
type Starter interface {
	// Start returns once the process runs. ctx bounds only the starting. An error says the command could not be
	// started, and that nothing of it is left.
	Start(ctx context.Context, c Command) (Process, error)
}

// Process is a started command and everything that came out of it.
type Process interface {
	PID() int
	// Stop sends the signal to the whole group, then SIGKILL after grace, and on until nothing of the command is
	// left. It returns at once; calling it again may only shorten the grace.
	Stop(signal os.Signal, grace time.Duration)
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// Gone is closed when nothing of the command is left: its group, its descendants. Only then may the key go on.
	Gone() <-chan struct{}
	// Exit is how the command ended; valid once Exited is closed.
	Exit() Exit
}

// Exit is how a command ended.
type Exit struct {
	Code   int       // its exit status; -1 when a signal ended it
	Signal os.Signal // that signal, else nil
	Err    error     // the starter lost sight of it, else nil
}
