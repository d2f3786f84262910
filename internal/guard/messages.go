package guard

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// kind names a type of message on the wire.
type kind string

// body is what a message says. Each kind has a type of its own, and check refuses what cannot be meant.
type body interface {
	kind() kind
	check() error
}

// fromWorker and fromGuard make the bodies that each side may send.
var (
	fromWorker = bodies(
		func() body { return new(hello) }, func() body { return new(start) }, func() body { return new(stop) },
		func() body { return new(renewed) }, func() body { return new(opening) }, func() body { return new(closed) },
		func() body { return new(remote) }, func() body { return new(inside) }, func() body { return new(place) },
		func() body { return new(pass) }, func() body { return new(bye) },
	)
	fromGuard = bodies(
		func() body { return new(started) }, func() body { return new(exited) }, func() body { return new(gone) },
		func() body { return new(ordered) }, func() body { return new(signalled) },
		func() body { return new(suspended) }, func() body { return new(Alarm) }, func() body { return new(ping) },
	)
)

func bodies(makers ...func() body) map[kind]func() body {
	byKind := make(map[kind]func() body, len(makers))
	for _, m := range makers {
		byKind[m().kind()] = m
	}
	return byKind
}

// Bits of start.Files: which files were passed, in this order.
const (
	passedStdin = 1 << iota
	passedStdout
	passedStderr
)

// What the worker says.
type (
	// hello comes first: the lease's duration and how long a shutdown may take. It may be repeated.
	hello struct {
		Lease time.Duration `json:"lease"`
		Limit time.Duration `json:"limit"` // of a shutdown
	}
	// start has a command started. What it reads and writes is passed as files with it.
	start struct {
		ID      uint64    `json:"id"` // given by the worker
		Key     elect.Key `json:"key"`
		Session string    `json:"session"`
		Token   int64     `json:"token"`
		// Arguments and environment are bytes, since they need not be UTF-8.
		Path []byte   `json:"path"`
		Args [][]byte `json:"args"`
		Env  [][]byte `json:"env"`
		Dir  []byte   `json:"dir,omitempty"`
		// Files says which files were passed: bits of passedStdin, passedStdout and passedStderr.
		Files int `json:"files"`
	}
	// stop has a command ended: signal, then SIGKILL after grace.
	stop struct {
		ID     uint64        `json:"id"`
		Signal int           `json:"signal"`
		Grace  time.Duration `json:"grace"`
	}
	// pass has a command given a signal that means nothing to the guard.
	pass struct {
		ID     uint64 `json:"id"`
		Signal int    `json:"signal"`
	}
	// renewed moves a session's deadlines.
	renewed struct {
		Session   string    `json:"session"`
		Deadlines Deadlines `json:"deadlines"`
	}
	// opening says that a session is about to be inserted.
	opening struct {
		Session string `json:"session"`
	}
	// closed says that a session is marked dead: nothing more to do for it.
	closed struct {
		Session string `json:"session"`
	}
	// remote says until when an HTTP endpoint may work on a key; nil: no longer.
	remote struct {
		Session string            `json:"session"`
		Key     elect.Key         `json:"key"`
		Until   *protocol.Instant `json:"until,omitempty"`
	}
	// inside says that a run of a key works in the worker's own process, or is over.
	inside struct {
		Session string    `json:"session"`
		Key     elect.Key `json:"key"`
		Over    bool      `json:"over,omitempty"`
	}
	// place brings a locked file, to be held until the guard's end.
	place struct{}
	// bye says that the worker is about to exit in order.
	bye struct{}
)

// What the guard says; an [Alarm], too.
type (
	// started answers a start: the process, or why there is none.
	started struct {
		ID    uint64 `json:"id"`
		PID   int    `json:"pid,omitempty"`
		Error string `json:"error,omitempty"`
		Errno int    `json:"errno,omitempty"`
	}
	// exited says that the command itself has ended. Code is -1 when a signal ended it.
	exited struct {
		ID     uint64 `json:"id"`
		Code   int    `json:"code"`
		Signal int    `json:"signal,omitempty"`
	}
	// gone says that nothing of a command is left.
	gone struct {
		ID uint64 `json:"id"`
	}
	ordered struct {
		Order Order `json:"order"`
	}
	// signalled says that the guard, in the foreground, was sent a signal.
	signalled struct {
		Signal int `json:"signal"`
	}
	// suspended says that the guard stops with its command, and is silent until it goes on.
	suspended struct{}
	// ping says that the guard lives.
	ping struct{}
)

func (*hello) kind() kind     { return "hello" }
func (*start) kind() kind     { return "start" }
func (*stop) kind() kind      { return "stop" }
func (*pass) kind() kind      { return "pass" }
func (*renewed) kind() kind   { return "renewed" }
func (*opening) kind() kind   { return "opening" }
func (*closed) kind() kind    { return "closed" }
func (*remote) kind() kind    { return "remote" }
func (*inside) kind() kind    { return "inside" }
func (*place) kind() kind     { return "place" }
func (*bye) kind() kind       { return "bye" }
func (*started) kind() kind   { return "started" }
func (*exited) kind() kind    { return "exited" }
func (*gone) kind() kind      { return "gone" }
func (*ordered) kind() kind   { return "order" }
func (*signalled) kind() kind { return "signalled" }
func (*suspended) kind() kind { return "suspended" }
func (*Alarm) kind() kind     { return "alarm" }
func (*ping) kind() kind      { return "ping" }

func (h *hello) check() error {
	if h.Lease <= 0 || h.Limit < 0 {
		return fmt.Errorf("lease of %v with limit %v: must be positive, and not negative", h.Lease, h.Limit)
	}
	return nil
}

func (s *start) check() error {
	if s.ID == 0 || s.Key == "" || s.Session == "" || len(s.Path) == 0 || len(s.Args) == 0 {
		return errors.New("id, key, session, path and args must not be empty")
	}
	if all := passedStdin | passedStdout | passedStderr; s.Files&^all != 0 {
		return fmt.Errorf("files %d: at most %d", s.Files, all)
	}
	return nil
}

// lastSignal is the largest number of a signal.
const lastSignal = 64

func (s *stop) check() error {
	if s.Signal < 1 || s.Signal > lastSignal || s.Grace < 0 {
		return fmt.Errorf("signal %d with grace %v: from 1 to %d, and not negative", s.Signal, s.Grace, lastSignal)
	}
	return nil
}

func (p *pass) check() error      { return checkSignal(p.Signal) }
func (s *signalled) check() error { return checkSignal(s.Signal) }

func checkSignal(number int) error {
	if number < 1 || number > lastSignal {
		return fmt.Errorf("signal %d: from 1 to %d", number, lastSignal)
	}
	return nil
}

func (r *renewed) check() error { return checkSession(r.Session) }
func (o *opening) check() error { return checkSession(o.Session) }
func (c *closed) check() error  { return checkSession(c.Session) }

func (r *remote) check() error { return checkRun(r.Session, r.Key) }
func (i *inside) check() error { return checkRun(i.Session, i.Key) }

func checkRun(session string, key elect.Key) error {
	if key == "" {
		return errors.New("key: must not be empty")
	}
	return checkSession(session)
}

func checkSession(uuid string) error {
	if uuid == "" {
		return errors.New("session: must not be empty")
	}
	return nil
}

func (o *ordered) check() error {
	if o.Order < Drain || o.Order > HardStop {
		return fmt.Errorf("%v: from %v to %v", o.Order, Drain, HardStop)
	}
	return nil
}

func (*place) check() error     { return nil }
func (*bye) check() error       { return nil }
func (*started) check() error   { return nil }
func (*exited) check() error    { return nil }
func (*gone) check() error      { return nil }
func (*suspended) check() error { return nil }
func (*Alarm) check() error     { return nil }
func (*ping) check() error      { return nil }

// refused answers a start with an error.
func refused(id uint64, err error) *started {
	s := &started{ID: id, Error: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		s.Errno = int(errno)
	}
	return s
}

// slotOf names messages of which only the newest counts; empty: all count.
func slotOf(b body) string {
	switch b := b.(type) {
	case *renewed:
		return "renewed/" + b.Session
	case *ordered:
		return "order/" + b.Order.String()
	case *ping:
		return "ping"
	default:
		return ""
	}
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
