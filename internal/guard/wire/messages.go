package wire

import (
	"encoding/gob"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

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
	}
	// Order is what the guard asks of the worker.
	Order uint8
)

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
	HoldLock{},
	Goodbye{},
	Started{},
	Exited{},
	Gone{},
	Signalled{},
	Suspended{},
	Ping{},
	Alarm{},
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
	default:
		return ""
	}
}
