package lockcommand

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// The exit codes that are not the command's, of sysexits.h where they have a name there.
const (
	CodeNotObtained = 1
	CodeUsage       = 64
	CodeCannotStart = 69
	CodeLost        = guard.ExitLeaseLost
	CodeRefused     = cli.CodeConfig
)

// Outcome is how it ended: the exit code, and what there is to say about it; nil: nothing.
type Outcome struct {
	Code int
	Err  error
	// abandoned: something of the command may be left, so that this process must not give the lock back.
	abandoned bool
}

// signalled says that a signal ended the waiting.
type signalled syscall.Signal

func (s signalled) Error() string { return syscall.Signal(s).String() }

// notObtained is the outcome without the lock. conflict is the exit code of that.
func (r Request) notObtained(err error, conflict int) Outcome {
	s, interrupted := errors.AsType[signalled](err)
	switch {
	case interrupted:
		return Outcome{Code: signalCode(syscall.Signal(s))}
	case errors.Is(err, worker.ErrLost):
		return guardLost()
	case lockedByOthers(err):
		return Outcome{Code: conflict} // as flock(1), whose users take it for an answer
	case driver.Lasting(err): // the next attempt would end in the same way
		return Outcome{Code: CodeRefused, Err: r.explain(err)}
	default:
		return Outcome{Code: conflict, Err: r.explain(err)}
	}
}

func signalCode(s syscall.Signal) int { return 128 + int(s) }

// exitCode is a command's own.
func exitCode(e taskrun.Exit) int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return signalCode(s)
	}
	return e.Code
}

var errGuardLost = errors.New(
	"the other process of this command was killed or stopped: COMMAND was ended, and others get the lock once the " +
		"lease is over",
)

// guardLost is the outcome of a guard that has gone or stands still.
func guardLost() Outcome { return Outcome{Code: CodeLost, Err: errGuardLost, abandoned: true} }

// ended is the outcome of a hold that had ended, by its cause, before the command had.
func (r Request) ended(cause error) Outcome {
	if errors.Is(cause, mutex.ErrMaxHold) {
		return Outcome{Code: CodeLost, Err: fmt.Errorf(
			"COMMAND was ended: it had held %s/%s for --max-hold %v", Group, r.Key, r.MaxHold,
		)}
	}
	return Outcome{Code: CodeLost, Err: fmt.Errorf(
		"COMMAND was ended: the lease of %s/%s was lost; see whether the store could be reached: %w", Group, r.Key,
		cause,
	)}
}
