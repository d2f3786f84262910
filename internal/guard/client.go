package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// envGuard says to a worker where its guard is: descriptor, the guard's process id, and the directory of its control
// group or nothing, joined by colons.
const envGuard = "SHARDCTL_GUARD"

// startsAtOnce bounds the starts that wait for the guard's answer, and with them the descriptors on their way.
const startsAtOnce = 64

// Present says whether this process was started by a guard as its worker.
func Present() bool { return os.Getenv(envGuard) != "" }

// Client is the worker's end of the guard. It starts commands (it is a [tasks.Starter]) and informs the guard of what
// it has to know of sessions. All methods may be called concurrently, and none waits for the guard unless it says so.
type Client struct {
	conn   *conn
	pid    int            // the guard's
	cgroup process.Cgroup // that of all runs; empty: there is none
	procs  *procSet

	mu    sync.Mutex
	known map[string]bool // sessions whose processes may still run
	bye   bool

	pace   *pace
	starts chan struct{}
	orders chan Order
	passed chan syscall.Signal
	alarms chan Alarm
	lost   chan struct{}
	group  sync.WaitGroup
}

var _ tasks.Starter = (*Client)(nil)

// Connect takes up the connection to the guard that started this process. Call it once, early: it takes the trace of
// the guard out of the environment, so that commands do not inherit it.
func Connect() (*Client, error) {
	value := os.Getenv(envGuard)
	if err := os.Unsetenv(envGuard); err != nil {
		return nil, fmt.Errorf("connect to the guard: %w", err)
	}
	fdText, rest, _ := strings.Cut(value, ":")
	pidText, cgroup, _ := strings.Cut(rest, ":")
	fd, err1 := strconv.Atoi(fdText)
	pid, err2 := strconv.Atoi(pidText)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("connect to the guard: %s=%q: %w", envGuard, value, err)
	}
	if os.Getppid() != pid {
		return nil, fmt.Errorf("connect to the guard: process %d is not the parent any more: %w", pid, ErrLost)
	}
	syscall.CloseOnExec(fd)
	conn, err := connFromFile(os.NewFile(uintptr(fd), "guard"))
	if err != nil {
		return nil, err
	}
	return newClient(conn, pid, process.Cgroup(cgroup)), nil
}

func newClient(conn *conn, pid int, cgroup process.Cgroup) *Client {
	c := &Client{
		conn: conn, pid: pid, cgroup: cgroup, procs: newProcSet(), known: map[string]bool{}, pace: newPace(),
		starts: make(chan struct{}, startsAtOnce), orders: make(chan Order, 16),
		passed: make(chan syscall.Signal, 16), alarms: make(chan Alarm, 64), lost: make(chan struct{}),
	}
	c.group.Go(func() {
		_ = conn.read(fromGuard, c.handle)
		c.lose()
	})
	c.group.Go(func() { c.pace.listen(conn) })
	return c
}

// Hello gives the guard the lease's duration T and how long a shutdown may take. Say it once they are known and before
// anything else; saying it again changes them.
func (c *Client) Hello(lease, shutdown time.Duration) error {
	c.pace.set(lease)
	return c.failed("say hello", c.conn.send(&hello{Lease: lease, Limit: shutdown}))
}

// SessionOpening gives the guard a session's uuid. It returns once that is written, and only then may the session be
// inserted: should this process die, the guard marks it dead.
func (c *Client) SessionOpening(ctx context.Context, uuid string) error {
	c.mu.Lock()
	c.known[uuid] = true
	c.mu.Unlock()
	return c.written(ctx, "announce a session", &opening{uuid})
}

// SessionClosed informs the guard that a session is marked dead and all of its work is gone: nothing is left to do for
// it.
func (c *Client) SessionClosed(uuid string) error {
	return c.failed("close a session", c.conn.send(&closed{uuid}))
}

// Deadline gives the guard a session's moments after an acknowledged heartbeat. It never blocks: of those that wait to
// be sent only the newest is.
func (c *Client) Deadline(session string, d Deadlines) error {
	return c.failed("move a deadline", c.conn.send(&renewed{session, d}))
}

// RemoteLease informs the guard until when an HTTP endpoint may work on a key. It returns once that is written, and
// only then may the endpoint be informed.
func (c *Client) RemoteLease(ctx context.Context, key elect.Key, session string, until protocol.Instant) error {
	return c.written(ctx, "announce a remote lease", &remote{session, key, &until})
}

// RemoteLeaseOver informs the guard that the HTTP endpoint has acknowledged its stop.
func (c *Client) RemoteLeaseOver(key elect.Key, session string) error {
	return c.failed("end a remote lease", c.conn.send(&remote{Session: session, Key: key}))
}

// RunInside informs the guard that a run of a key is about to work in this process. It returns once that is written,
// and only then may the run begin: should it go on at X, the guard kills this process.
func (c *Client) RunInside(ctx context.Context, key elect.Key, session string) error {
	return c.written(ctx, "announce a run", &inside{Session: session, Key: key})
}

// RunInsideOver informs the guard that the run has ended.
func (c *Client) RunInsideOver(key elect.Key, session string) error {
	return c.failed("end a run", c.conn.send(&inside{session, key, true}))
}

// Orders delivers what the guard asks for. An order that was not taken yet is not repeated.
func (c *Client) Orders() <-chan Order { return c.orders }

// Signals delivers those that were sent to a guard in the foreground: SIGTERM, SIGINT, SIGHUP and SIGQUIT. Those that
// were not taken yet are at most sixteen.
func (c *Client) Signals() <-chan syscall.Signal { return c.passed }

// SharesGroup says that this process is in the guard's process group, as a guard in the foreground has it on a
// terminal. A signal to the group then reaches guard, worker and command, each by itself.
func (c *Client) SharesGroup() bool {
	group, err := unix.Getpgid(c.pid)
	return err == nil && group == unix.Getpgrp()
}

// Abandon gives the guard up, as if it were gone: for one that does not end in time what it has to end.
func (c *Client) Abandon() { c.conn.shut(errors.New("abandoned")) }

// Alarms delivers what would not die. When it is not read, the newest are dropped.
func (c *Client) Alarms() <-chan Alarm { return c.alarms }

// Lost is closed when the guard is gone, after what could be found of the tasks was killed (at most half a second
// later). The process must then exit at once, without releasing or marking anything.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close says goodbye: this process is about to exit in order. It waits until everything queued is written or ctx ends.
// The guard kills what tasks are left and waits a few seconds for the process to exit. Lost is not closed by it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.bye = true
	c.mu.Unlock()
	err := c.written(ctx, "say goodbye", &bye{})
	c.conn.shut(errClosed)
	c.group.Wait()
	<-c.conn.writing
	return err
}

// written sends b and waits until it is written, ctx ends, or the guard is gone.
func (c *Client) written(ctx context.Context, what string, b body, files ...*os.File) error {
	select {
	case err := <-c.conn.sendWait(b, files...):
		return c.failed(what, err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// failed wraps a failure to queue or write.
func (c *Client) failed(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnsendable):
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrLost, err)
}

// killFor is how long a worker that lost its guard goes on looking for processes to kill.
const killFor = 500 * time.Millisecond

// lose ends the client when the connection has: without a goodbye, it kills what it can find and then closes Lost.
func (c *Client) lose() {
	c.mu.Lock()
	bye, sessions := c.bye, maps.Clone(c.known)
	c.mu.Unlock()
	groups := c.procs.lose()
	if bye {
		return
	}
	victims{groups: groups, sessions: sessions, cgroup: c.cgroup}.killAll(Now().Add(killFor))
	close(c.lost)
}

// handle takes one message from the guard.
func (c *Client) handle(m message) {
	c.pace.heard()
	switch b := m.body.(type) {
	case *started:
		c.procs.progress(b.ID, b, b.Error != "")
	case *exited:
		c.procs.progress(b.ID, b, false)
	case *gone:
		c.procs.progress(b.ID, b, true)
	case *ordered:
		select {
		case c.orders <- b.Order:
		default: // sixteen of them wait already
		}
	case *signalled:
		select {
		case c.passed <- syscall.Signal(b.Signal):
		default:
		}
	case *suspended:
		c.pace.suspend(true)
	case *Alarm:
		select {
		case c.alarms <- *b:
		default:
		}
	default: // a ping has done its work by coming
	}
}
