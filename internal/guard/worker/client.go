// Package worker is the worker's side of the guard: it has commands started, informs the guard of sessions and leases,
// and takes its orders. Without its guard a worker kills what it can find of its tasks and exits.
package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// ErrLost says that the guard is gone: the worker must exit, without marking its session.
var ErrLost = errors.New("the guard is gone")

// Client is the worker's end of the connection to its guard. All methods may be called concurrently, and none waits for
// the guard unless it says so.
type Client struct {
	Commands  *Commands  // has the guard start commands
	Announcer *Announcer // informs the guard of sessions and of work

	conn    *wire.Conn
	guard   int            // its process
	cgroup  process.Cgroup // that of all runs; empty: there is none
	leaving atomic.Bool    // the guard knows that this process exits
	silence *silence
	orders  chan wire.Order
	signals chan syscall.Signal
	alarms  chan wire.Alarm
	used    chan wire.Used
	lost    chan struct{}
	group   sync.WaitGroup
}

// Connect takes up the connection to the guard that started this process. Call it once, early: it takes the trace of
// the guard out of the environment, so that commands do not inherit it.
func Connect() (*Client, error) {
	h, err := wire.TakeHandover()
	if err != nil {
		return nil, fmt.Errorf("connect to the guard: %w", err)
	}
	if os.Getppid() != h.PID {
		return nil, fmt.Errorf("connect to the guard: process %d is not the parent any more: %w", h.PID, ErrLost)
	}
	syscall.CloseOnExec(h.FD)
	conn, err := wire.NewConn(os.NewFile(uintptr(h.FD), "guard"))
	if err != nil {
		return nil, err
	}
	c := &Client{
		Commands: newCommands(conn), Announcer: &Announcer{conn: conn, sessions: map[string]bool{}},
		conn: conn, guard: h.PID, cgroup: h.Cgroup, silence: newSilence(), orders: make(chan wire.Order, 16),
		signals: make(chan syscall.Signal, 16), alarms: make(chan wire.Alarm, 64), used: make(chan wire.Used, 1),
		lost: make(chan struct{}),
	}
	c.group.Go(func() {
		_ = conn.Read(c.handle)
		c.lose()
	})
	c.group.Go(func() { c.silence.watch(conn) })
	return c, nil
}

// Hello gives the guard the lease's duration T and how long a shutdown may take. Call it once they are known and before
// anything else; calling it again changes them.
func (c *Client) Hello(lease, shutdownTimeout time.Duration) error {
	c.silence.setLease(lease)
	return failed("say hello", c.conn.Send(wire.Hello{Lease: lease, ShutdownTimeout: shutdownTimeout}))
}

// HoldLock has the guard keep a locked file open until its own end, which may come after this process's. It returns
// once that is written. The file stays the caller's.
func (c *Client) HoldLock(ctx context.Context, lock *os.File) error {
	fd, err := unix.FcntlInt(lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("share %s: %w", lock.Name(), err)
	}
	return written(ctx, c.conn, "share a lock", wire.HoldLock{}, os.NewFile(uintptr(fd), lock.Name()))
}

// Orders delivers what the guard asks for. An order that was not taken yet is not repeated.
func (c *Client) Orders() <-chan wire.Order { return c.orders }

// Signals delivers those that were sent to a guard in the foreground: SIGTERM, SIGINT, SIGHUP and SIGQUIT. Those that
// were not taken yet are at most sixteen.
func (c *Client) Signals() <-chan syscall.Signal { return c.signals }

// SharesGroup says that this process is in the guard's process group, as a guard in the foreground has it on a
// terminal. A signal to the group then reaches guard, worker and command, each by itself.
func (c *Client) SharesGroup() bool {
	group, err := unix.Getpgid(c.guard)
	return err == nil && group == unix.Getpgrp()
}

// Abandon gives the guard up, as if it were gone: for one that does not end in time what it has to end.
func (c *Client) Abandon() { c.conn.Shut(errors.New("abandoned")) }

// Alarms delivers what would not die. When it is not read, the newest are dropped.
func (c *Client) Alarms() <-chan wire.Alarm { return c.alarms }

// MeasureCPU asks how much processor time the commands have used, which [Client.Used] delivers. While an earlier
// question is being answered, another one is dropped. It works where [process.CanFind].
func (c *Client) MeasureCPU() error {
	return failed("measure processor time", c.conn.Send(wire.MeasureCPU{}))
}

// Used delivers what [Client.MeasureCPU] asks for. An answer is dropped while the one before was not read.
func (c *Client) Used() <-chan wire.Used { return c.used }

// Lost is closed when the guard is gone, after what could be found of the tasks was killed (at most half a second
// later). The process must then exit at once, without releasing or marking anything.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close informs the guard that this process is about to exit gracefully. It waits until everything queued is written or
// ctx ends. The guard kills what tasks are left and waits a few seconds for the process to exit. Lost is not closed by
// it.
func (c *Client) Close(ctx context.Context) error {
	c.leaving.Store(true)
	err := written(ctx, c.conn, "say goodbye", wire.Goodbye{})
	c.conn.Shut(wire.ErrClosed)
	c.group.Wait()
	c.conn.AwaitWriter()
	return err
}

// written sends a message and waits until it is written, ctx ends, or the guard is gone.
func written(ctx context.Context, conn *wire.Conn, what string, body any, files ...*os.File) error {
	select {
	case err := <-conn.SendWait(body, files...):
		return failed(what, err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// failed wraps a failure to queue or write.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, ErrLost, err)
}

// lose ends the client when the connection has: unless this process exits anyway, it kills what it can find and then
// closes Lost.
func (c *Client) lose() {
	leaving := c.leaving.Load()
	groups := c.Commands.lose()
	if leaving {
		return
	}
	targets{groups: groups, sessions: c.Announcer.announced(), cgroup: c.cgroup}.kill(time.Now().Add(killFor))
	close(c.lost)
}

// handle takes one message from the guard. A ping has done its work by coming.
func (c *Client) handle(m wire.Message) {
	c.silence.heard()
	switch b := m.Body.(type) {
	case wire.Started:
		c.Commands.progress(b.ID, b, b.Error != "")
	case wire.Exited:
		c.Commands.progress(b.ID, b, false)
	case wire.Gone:
		c.Commands.progress(b.ID, b, true)
	case wire.Order:
		offer(c.orders, b)
	case wire.Signalled:
		offer(c.signals, b.Signal)
	case wire.Suspended:
		c.silence.suspend(true)
	case wire.Alarm:
		offer(c.alarms, b)
	case wire.Used:
		offer(c.used, b)
	}
}

// offer queues v, or drops it when the queue is full.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// silentTicks is how many ticks of T/20 without a message count as the guard's end: T/4.
const silentTicks = 5

// silence ends the connection to a guard that sends nothing any more.
type silence struct {
	mu        sync.Mutex
	lease     time.Duration
	suspended bool // the guard announced that it would be silent

	message chan struct{} // has an element after a message of the guard
	changed chan struct{} // has an element after a change of the lease
}

func newSilence() *silence {
	return &silence{lease: wire.DefaultLease, message: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (s *silence) heard() {
	s.suspend(false)
	offer(s.message, struct{}{})
}

// suspend has silence count for nothing until the guard is heard again.
func (s *silence) suspend(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = yes
}

func (s *silence) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

func (s *silence) setLease(lease time.Duration) {
	s.mu.Lock()
	s.lease = lease
	s.mu.Unlock()
	offer(s.changed, struct{}{})
}

// watch ends the connection when the guard is silent for T/4. Silence is counted in ticks of T/20 and not in time, so
// that a freeze of this process does not count against the guard. It returns with the connection's end.
func (s *silence) watch(conn *wire.Conn) {
	tick := time.NewTicker(s.tick())
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-s.message:
			silent = 0
		case <-s.changed:
			silent = 0
			tick.Reset(s.tick())
		case <-tick.C:
			if silent++; s.isSuspended() {
				silent = 0
			}
			if silent >= silentTicks {
				conn.Shut(fmt.Errorf("the guard was silent for %d ticks", silent))
				return
			}
		case <-conn.Down():
			return
		}
	}
}

func (s *silence) tick() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.lease/20, time.Millisecond)
}
