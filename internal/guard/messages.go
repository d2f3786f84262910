package guard

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// wireVersion is told in hello. Both processes run one binary, so a difference means that somebody else holds the socket.
const wireVersion = 1

// kind says what a message is.
type kind string

// From the worker to the guard.
const (
	kindHello    kind = "hello"    // Lease, Timeout (of a shutdown), Version
	kindStart    kind = "start"    // ID, Start, and two files
	kindStop     kind = "stop"     // ID, Signal, Grace
	kindDeadline kind = "deadline" // Session, Deadlines
	kindOpening  kind = "opening"  // Session: about to be inserted
	kindClosed   kind = "closed"   // Session: marked, nothing more to do for it
	kindGrant    kind = "grant"    // Session, Key, Until (zero: over)
	kindPlace    kind = "place"    // and a file, to be held until the end
	kindBye      kind = "bye"      // the worker is about to exit in order
)

// From the guard to the worker.
const (
	kindStarted kind = "started" // ID, PID; or Error, Errno
	kindExited  kind = "exited"  // ID, Code, Signal
	kindGone    kind = "gone"    // ID
	kindOrder   kind = "order"   // Order
	kindAlarm   kind = "alarm"   // Alarm
	kindPing    kind = "ping"
)

// message is everything that goes over the socket: one flat record, of which each kind uses its own fields.
type message struct {
	Kind    kind   `json:"kind"`
	Version int    `json:"version,omitempty"`
	ID      uint64 `json:"id,omitempty"` // of a command, given by the worker

	Lease   time.Duration `json:"lease,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`

	Session   string            `json:"session,omitempty"`
	Key       elect.Key         `json:"key,omitempty"`
	Deadlines *Deadlines        `json:"deadlines,omitempty"`
	Until     *protocol.Instant `json:"until,omitempty"`

	Start  *start        `json:"start,omitempty"`
	Signal int           `json:"signal,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`

	PID   int    `json:"pid,omitempty"`
	Code  int    `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`

	Order Order  `json:"order,omitempty"`
	Alarm *Alarm `json:"alarm,omitempty"`

	files []*os.File // sent beside the record; the receiver owns them
}

// start is a command as it travels. Arguments and environment are bytes, since they need not be UTF-8.
type start struct {
	Key     elect.Key `json:"key"`
	Session string    `json:"session"`
	Token   int64     `json:"token"`
	Path    []byte    `json:"path"`
	Args    [][]byte  `json:"args"`
	Env     [][]byte  `json:"env"`
	Dir     []byte    `json:"dir,omitempty"`
}

// slot names messages of which only the newest counts; empty: all count.
func (m *message) slot() string {
	switch m.Kind {
	case kindDeadline:
		return "deadline/" + m.Session
	case kindOrder:
		return "order/" + m.Order.String()
	case kindPing:
		return "ping"
	default:
		return ""
	}
}

// Order is what the guard asks of the worker.
type Order uint8

// The orders.
const (
	Drain    Order = iota + 1 // SIGTERM or SIGINT: give everything up in order, then exit
	Reload                    // SIGHUP: read the configuration again
	HardStop                  // a second SIGTERM or SIGINT: tasks are being killed, exit now; a kill follows at once
)

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

// Alarm says that something of a task is alive that should not be: SIGKILL was sent and has not helped. The key stays held
// until it is gone.
type Alarm struct {
	Session string    `json:"session"`
	Key     elect.Key `json:"key"`
	Token   int64     `json:"token"`
	PIDs    []int     `json:"pids,omitempty"` // what was found, at most 16 of them
	PastX   bool      `json:"pastX"`          // the session's hard deadline has passed as well
}

// bytesOf turns strings into what travels.
func bytesOf(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

// stringsOf turns what travelled into strings again.
func stringsOf(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

// startError is a failed start as the worker sees it; errors.Is works with fs.ErrNotExist and the like.
func (m *message) startError() error {
	if m.Errno != 0 {
		return fmt.Errorf("%s: %w", m.Error, syscall.Errno(m.Errno))
	}
	return fmt.Errorf("%s: %w", m.Error, ErrRefused)
}
