package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// envGuard tells a worker where its guard is: descriptor and the guard's process id, joined by a colon.
const envGuard = "SHARDCTL_GUARD"

var (
	// ErrLost says that the guard is gone: the worker must exit, without marking its session.
	ErrLost = errors.New("the guard is gone")
	// ErrRefused says that the guard did not start a command, for a reason of its own.
	ErrRefused = errors.New("refused by the guard")
)

// startsAtOnce bounds the starts that wait for the guard's answer, and with them the descriptors on their way.
const startsAtOnce = 64

// defaultLease sets the pace until a lease was told.
const defaultLease = 20 * time.Second

// Present says whether this process was started by a guard as its worker.
func Present() bool { return os.Getenv(envGuard) != "" }

// Client is the worker's end of the guard. It starts commands (it is a [tasks.Starter]) and tells the guard what it
// has to know of sessions. All methods may be called concurrently, and none waits for the guard unless it says so.
type Client struct {
	conn *conn
	pid  int // the guard's

	mu    sync.Mutex
	procs map[uint64]*process
	next  uint64
	lease time.Duration
	known map[string]bool // sessions whose processes may be about

	starts chan struct{}
	orders chan Order
	alarms chan Alarm
	heard  chan struct{} // a sign of life from the guard
	paced  chan struct{} // lease has changed
	lost   chan struct{}
	bye    bool
	group  sync.WaitGroup
}

var _ tasks.Starter = (*Client)(nil)

// Connect takes up the connection to the guard that started this process. Call it once, early: it takes the trace of the
// guard out of the environment, so that commands do not inherit it.
func Connect() (*Client, error) {
	value := os.Getenv(envGuard)
	if err := os.Unsetenv(envGuard); err != nil {
		return nil, fmt.Errorf("connect to the guard: %w", err)
	}
	fdText, pidText, _ := strings.Cut(value, ":")
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
	return newClient(conn, pid), nil
}

func newClient(conn *conn, pid int) *Client {
	c := &Client{
		conn: conn, pid: pid, procs: map[uint64]*process{}, lease: defaultLease, known: map[string]bool{},
		starts: make(chan struct{}, startsAtOnce), orders: make(chan Order, 16), alarms: make(chan Alarm, 64),
		heard: make(chan struct{}, 1), paced: make(chan struct{}, 1), lost: make(chan struct{}),
	}
	c.group.Go(func() {
		err := conn.read(c.handle)
		c.lose(err)
	})
	c.group.Go(c.listen)
	return c
}

// Hello tells the guard the lease's duration T and how long a shutdown may take. Say it once they are known and before
// anything else; saying it again changes them.
func (c *Client) Hello(lease, shutdown time.Duration) error {
	c.mu.Lock()
	c.lease = lease
	c.mu.Unlock()
	select {
	case c.paced <- struct{}{}:
	default:
	}
	return c.told("say hello", c.conn.send(message{Kind: kindHello, Version: wireVersion, Lease: lease, Timeout: shutdown}))
}

// SessionOpening tells the guard a session's uuid. It returns once that is written, and only then may the session be
// inserted: should this process die, the guard marks it dead.
func (c *Client) SessionOpening(ctx context.Context, uuid string) error {
	c.mu.Lock()
	c.known[uuid] = true
	c.mu.Unlock()
	return c.written(ctx, "tell of a session", message{Kind: kindOpening, Session: uuid})
}

// SessionClosed tells the guard that a session is marked dead and all of its work is gone: nothing is left to do for it.
func (c *Client) SessionClosed(uuid string) error {
	return c.told("close a session", c.conn.send(message{Kind: kindClosed, Session: uuid}))
}

// Deadline tells the guard a session's moments after an acknowledged beat. It never blocks: of those that wait to be sent
// only the newest is.
func (c *Client) Deadline(session string, d Deadlines) error {
	return c.told("tell a deadline", c.conn.send(message{Kind: kindDeadline, Session: session, Deadlines: &d}))
}

// Grant tells the guard until when a far side may work on a key. It returns once that is written, and only then may the
// grant be sent.
func (c *Client) Grant(ctx context.Context, key elect.Key, session string, until protocol.Instant) error {
	return c.written(ctx, "tell of a grant", message{Kind: kindGrant, Session: session, Key: key, Until: &until})
}

// GrantOver tells the guard that the far side has acknowledged its stop.
func (c *Client) GrantOver(key elect.Key, session string) error {
	return c.told("end a grant", c.conn.send(message{Kind: kindGrant, Session: session, Key: key}))
}

// Orders delivers what the guard asks for. An order that nobody took yet is not repeated.
func (c *Client) Orders() <-chan Order { return c.orders }

// Alarms delivers what would not die. When nobody reads, the newest are dropped.
func (c *Client) Alarms() <-chan Alarm { return c.alarms }

// Lost is closed when the guard is gone, after what could be found of the tasks was killed (at most half a second
// later). The process must then exit at once, without releasing or marking anything.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close says goodbye: this process is about to exit in order. It waits until everything queued is written or ctx ends. The
// guard kills what tasks are left and waits a few seconds for the process to exit. Lost is not closed by it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.bye = true
	c.mu.Unlock()
	err := c.written(ctx, "say goodbye", message{Kind: kindBye})
	c.conn.shut(errClosed)
	c.group.Wait()
	<-c.conn.writing
	return err
}

// written sends m and waits until it is written, ctx ends, or the guard is gone.
func (c *Client) written(ctx context.Context, what string, m message) error {
	select {
	case err := <-c.conn.sendWait(m):
		return c.told(what, err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// told wraps a failure to queue or write.
func (c *Client) told(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, ErrLost, err)
}

// handle takes one record from the guard.
func (c *Client) handle(m message) {
	select {
	case c.heard <- struct{}{}:
	default:
	}
	switch m.Kind {
	case kindStarted, kindExited, kindGone:
		c.progress(m)
	case kindOrder:
		select {
		case c.orders <- m.Order:
		default: // sixteen of them wait already
		}
	case kindAlarm:
		select {
		case c.alarms <- *m.Alarm:
		default:
		}
	default: // a ping has done its work by coming
	}
}

// progress tells a process what became of it.
func (c *Client) progress(m message) {
	c.mu.Lock()
	p := c.procs[m.ID]
	if p != nil && (m.Kind == kindGone || m.Error != "") {
		delete(c.procs, m.ID)
	}
	c.mu.Unlock()
	if p != nil {
		p.progress(m)
	}
}

// listen gives the guard up when it is silent for T/4. Silence is counted in ticks of T/20 and not in time, so that a
// freeze of this process does not count against the guard.
func (c *Client) listen() {
	tick := time.NewTicker(c.pace())
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-c.heard:
			silent = 0
		case <-c.paced:
			silent = 0
			tick.Reset(c.pace())
		case <-tick.C:
			if silent++; silent >= 5 {
				c.conn.shut(fmt.Errorf("the guard was silent for %d ticks", silent))
				return
			}
		case <-c.conn.down:
			return
		}
	}
}

func (c *Client) pace() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.lease/20, time.Millisecond)
}
