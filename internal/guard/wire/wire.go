// Package wire is what the guard and its worker agree on: how the worker finds the guard, the messages over their
// socket, and the connection that carries them. Both processes run one program, so that its messages need no versions.
package wire

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
)

// DefaultLease is taken for the lease's duration until the worker has sent the real one.
const DefaultLease = 20 * time.Second

// WorkerFD is the socket's descriptor in the worker: the first after standard error.
const WorkerFD = 3

// envGuard has a [Handover] in the worker's environment.
const envGuard = "SHARDCTL_GUARD"

// Handover is what a guard gives its worker by the environment.
type Handover struct {
	FD     int            // of the socket
	PID    int            // the guard's
	Cgroup process.Cgroup // holds those of all runs; empty: there is none
}

// IsWorker says whether a guard started this process as its worker.
func IsWorker() bool { return os.Getenv(envGuard) != "" }

// AddTo returns an environment with the handover in it.
func (h Handover) AddTo(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, envGuard+"=") })
	return append(out, fmt.Sprintf("%s=%d:%d:%s", envGuard, h.FD, h.PID, h.Cgroup))
}

// TakeHandover reads the handover and removes it from the environment, so that commands do not inherit it.
func TakeHandover() (Handover, error) {
	value := os.Getenv(envGuard)
	if err := os.Unsetenv(envGuard); err != nil {
		return Handover{}, err
	}
	parts := strings.SplitN(value, ":", 3)
	if len(parts) == 3 {
		fd, err1 := strconv.Atoi(parts[0])
		pid, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil {
			return Handover{FD: fd, PID: pid, Cgroup: process.Cgroup(parts[2])}, nil
		}
	}
	return Handover{}, fmt.Errorf("%s=%q: want DESCRIPTOR:PID:CGROUP", envGuard, value)
}

// The variables that mark a task's processes. Whatever builds a command's environment sets them.
const (
	EnvKey     = variables.Key
	EnvSession = variables.Session
	EnvToken   = variables.FencingToken
)

// Marks are what a task's processes carry in their environment. The token distinguishes a run from an earlier one.
type Marks struct {
	Key, Session, Token string
}

// MarksOf reads what a process carries; zero: it carries nothing, or hides it. sure is false while it shows no
// environment, so that nothing is known.
func MarksOf(pid int) (m Marks, sure bool) {
	values, sure := process.LookEnviron(pid, EnvKey, EnvSession, EnvToken)
	if values[0] == "" || values[1] == "" {
		return Marks{}, sure
	}
	return Marks{values[0], values[1], values[2]}, true
}

var clock = elect.SystemClock()

// Now reads the machine's two steady clocks. Guard and worker run on one machine, so that an instant read by one means
// the same to the other.
func Now() elect.Instant { return clock.Now() }

// What the worker sends.
type (
	// Hello comes first: the lease's duration and how long a shutdown may take. It may be repeated.
	Hello struct{ Lease, ShutdownTimeout time.Duration }
	// Start has a command started. What it reads and writes is passed as files with it.
	Start struct {
		ID      uint64 // given by the worker
		Key     elect.Key
		Session string
		Token   int64
		Path    string
		Args    []string
		Env     []string
		Dir     string
		// Stdin, Stdout and Stderr are each the number of a file that was passed, from 1; 0: none.
		Stdin, Stdout, Stderr int
	}
	// Stop has a command ended: signal, then SIGKILL after grace.
	Stop struct {
		ID     uint64
		Signal syscall.Signal
		Grace  time.Duration
	}
	// Pass has a command given a signal that means nothing to the guard.
	Pass struct {
		ID     uint64
		Signal syscall.Signal
	}
	// SessionOpening says that a session is about to be inserted.
	SessionOpening struct{ Session string }
	// Renewed moves a session's deadlines.
	Renewed struct {
		Session   string
		Deadlines Deadlines
	}
	// SessionClosed says that a session is marked dead: nothing more to do for it.
	SessionClosed struct{ Session string }
	// RemoteLease says until when an HTTP endpoint may work on a key; nil: no longer.
	RemoteLease struct {
		Session string
		Key     elect.Key
		Until   *elect.Instant
	}
	// RunInside says that a run of a key works in the worker's own process, or is over.
	RunInside struct {
		Session string
		Key     elect.Key
		Over    bool
	}
	// ApplicationKey says that an application which is no command of the guard's may run a key, or does no longer.
	ApplicationKey struct {
		Session string
		Key     elect.Key
		Over    bool
	}
	// ApplicationValid says until when it may run all of them.
	ApplicationValid struct{ Until elect.Instant }
	// MeasureCPU asks how much processor time the commands have used. Used answers it, later or never.
	MeasureCPU struct{}
	// HoldLock brings a locked file, to be kept open until the guard's end.
	HoldLock struct{}
	// Goodbye says that the worker is about to exit gracefully.
	Goodbye struct{}
)

// What the guard sends.
type (
	// Started answers a start: the process, or why there is none.
	Started struct {
		ID    uint64
		PID   int
		Error string
		Errno syscall.Errno // of the error; 0: none
	}
	// Exited says that the command itself has ended. Code is -1 when a signal ended it.
	Exited struct {
		ID     uint64
		Code   int
		Signal syscall.Signal
	}
	// Gone says that nothing of a command is left.
	Gone struct{ ID uint64 }
	// Signalled says that the guard, in the foreground, was sent a signal.
	Signalled struct{ Signal syscall.Signal }
	// Suspended says that the guard stops with its command, and is silent until it goes on.
	Suspended struct{}
	// Ping says that the guard lives.
	Ping struct{}
	// Alarm says that something of a task is alive that should not be: SIGKILL was sent and has not helped. The key
	// stays held until it is gone.
	Alarm struct {
		Session string
		Key     elect.Key
		Token   int64
		PIDs    []int // what was found, at most 16 of them
		PastX   bool  // the session's hard deadline has passed as well
		Refused bool  // they may not be signalled: they run as another user
	}
	// Used says how much processor time commands have used by a moment. Those of which that is not known are left out.
	Used struct {
		At       elect.Instant
		Commands []Usage
	}
	// Order is what the guard asks of the worker.
	Order uint8
)

// Usage is the processor time of one command, from its start on.
type Usage struct {
	ID  uint64 // of its start
	Key elect.Key
	CPU time.Duration
}

// The orders.
const (
	Drain    Order = iota + 1 // SIGTERM or SIGINT: release everything gracefully, then exit
	Reload                    // SIGHUP: read the configuration again
	HardStop                  // a second SIGTERM or SIGINT: tasks are being killed, exit now; a kill follows at once
)

// bodies are an example of each message.
var bodies = []any{
	Hello{},
	Start{},
	Stop{},
	Pass{},
	SessionOpening{},
	Renewed{},
	SessionClosed{},
	RemoteLease{},
	RunInside{},
	ApplicationKey{},
	ApplicationValid{},
	MeasureCPU{},
	HoldLock{},
	Goodbye{},
	Started{},
	Exited{},
	Gone{},
	Signalled{},
	Suspended{},
	Ping{},
	Alarm{},
	Used{},
	Order(0),
}

func init() {
	for _, b := range bodies {
		gob.Register(b)
	}
}

// Deadlines are the moments of one session's lease, counted from the sending of its last acknowledged heartbeat.
type Deadlines struct {
	Cancel elect.Instant // D: nothing starts any more, what runs is asked to stop
	Kill   elect.Instant // 0.8 T: SIGKILL
	Gone   elect.Instant // X, 0.9 T: nothing may be alive any more
}

// DeadlinesFrom gives the moments for a heartbeat sent at sent. D is after renew (0.75 T at most), SIGKILL at 0.8 T,
// the end at 0.9 T.
func DeadlinesFrom(sent elect.Instant, lease, renew time.Duration) Deadlines {
	return Deadlines{Cancel: sent.Add(renew), Kill: sent.Add(lease * 8 / 10), Gone: sent.Add(lease * 9 / 10)}
}

// Refused answers a start with an error.
func Refused(id uint64, err error) Started {
	s := Started{ID: id, Error: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		s.Errno = errno
	}
	return s
}

// String is the order in a word.
func (o Order) String() string {
	switch o {
	case Drain:
		return "drain"
	case Reload:
		return "reload"
	case HardStop:
		return "hardstop"
	default:
		return fmt.Sprintf("order %d", uint8(o))
	}
}

// slotOf names messages of which only the newest counts; empty: all count.
func slotOf(body any) string {
	switch b := body.(type) {
	case Renewed:
		return "renewed/" + b.Session
	case Order:
		return "order/" + b.String()
	case Ping:
		return "ping"
	case Used:
		return "used"
	default:
		return ""
	}
}
