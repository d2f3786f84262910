package zkstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/elect/internal/storeuri"
)

// sessionTimeout is what is asked for; servers give two of their ticks at least. Nothing of ours hangs on a session of
// ZooKeeper. It only says how soon a silent connection is given up: after two thirds of it.
const sessionTimeout = 4 * time.Second

// inFlight is how many requests of one call wait for their answers at a time.
const inFlight = 64

// client is the one connection of a store. The library connects again by itself, to the next server.
type client struct {
	conn   *zk.Conn
	events <-chan zk.Event
	user   string
	listen func(zk.Event) // gets all events, in their order among the replies; it must not block
	link   atomic.Pointer[link]
	// course counts sessions and connections: what was answered in one course came from one server, in order.
	course atomic.Uint64

	mu      sync.Mutex
	session chan struct{} // closed while there is a session
	trouble error         // why there is none
	refused chan struct{} // closed when to try again is no use; nil once there was a session
}

// connect begins to connect, and does not wait for it.
func connect(ctx context.Context, u storeuri.URI, d dialer, log logr.Logger, listen func(zk.Event)) (*client, error) {
	c := &client{
		user: u.User, listen: listen, session: make(chan struct{}), refused: make(chan struct{}),
		trouble: errors.New("no server has answered yet"),
	}
	conn, events, err := zk.Connect(
		u.Hosts, sessionTimeout, zk.WithHostProvider(&hosts{}), zk.WithLogger(libraryLog{log}), zk.WithLogInfo(false),
		zk.WithEventCallback(c.event),
		zk.WithDialer(func(_, address string, _ time.Duration) (net.Conn, error) { return c.dial(ctx, d, address) }),
	)
	if err != nil {
		return nil, fmt.Errorf("begin to connect: %w", err)
	}
	c.conn, c.events = conn, events
	return c, nil
}

// dial makes a connection for the library.
func (c *client) dial(ctx context.Context, d dialer, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, address)
	if err != nil {
		c.fail(err)
		return nil, err
	}
	l := &link{Conn: conn, begun: time.Now()}
	l.failed = func(err error) { c.fail(fmt.Errorf("%s: %w", address, err)) }
	c.link.Store(l)
	return l, nil
}

// fail notes why there is no session. A server whose certificate is not trusted will not get one by asking again. Once
// some server was trusted, another one may be: then it is only not reached.
func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	if c.refused == nil || !errors.As(err, &authority) && !errors.As(err, &name) {
		return
	}
	select {
	case <-c.refused:
	default:
		close(c.refused)
	}
}

// event is called by the library, between replies.
func (c *client) event(e zk.Event) {
	if e.Type == zk.EventSession {
		c.sessionEvent(e.State)
	}
	c.listen(e)
}

func (c *client) sessionEvent(s zk.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	up := false
	select {
	case <-c.session:
		up = true
	default:
	}
	switch {
	case s == zk.StateHasSession:
		c.course.Add(1)
		c.refused = nil
		if l := c.link.Load(); l != nil {
			l.greeted.Store(true)
		}
		if !up {
			close(c.session)
		}
	case up:
		c.session = make(chan struct{})
	}
}

// await waits for a session.
func (c *client) await(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	session, refused := c.session, c.refused
	c.mu.Unlock()
	select {
	case <-session:
		return nil
	default:
	}
	select {
	case <-session:
		return nil
	case <-refused:
		return c.because(errRefused)
	case <-ctx.Done():
		return c.because(ctx.Err())
	}
}

// errRefused says that no server is to be trusted.
var errRefused = errors.New("the server's certificate is not trusted")

func (c *client) because(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("no session with ZooKeeper: %w: %w", err, c.trouble)
}

// do sends one request and waits for its answer, or for the end of ctx. Then the request may yet be carried out.
func do[T any](ctx context.Context, c *client, request func(*zk.Conn) (T, error)) (T, error) {
	var none T
	if err := c.await(ctx); err != nil {
		return none, err
	}
	type answer struct {
		value T
		err   error
	}
	answers, sent := make(chan answer, 1), time.Now()
	go func() {
		value, err := request(c.conn)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		if l := c.link.Load(); l != nil && l.silentSince(sent) {
			_ = l.Close() // another server may answer
		}
		return none, ctx.Err()
	}
}

// authenticate names the user. ZooKeeper takes any password; what it is good for shows at the first znode.
func (c *client) authenticate(ctx context.Context, password string) error {
	for {
		_, err := do(ctx, c, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.AddAuth("digest", []byte(c.user+":"+password))
		})
		if !errors.Is(err, zk.ErrConnectionClosed) {
			return err
		}
	}
}

// close ends the session and waits for the library's loops.
func (c *client) close(ctx context.Context) {
	c.conn.Close()
	if l := c.link.Load(); l != nil {
		_ = l.Close()
	}
	for {
		select {
		case _, open := <-c.events:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// each calls f for 0 to n-1, a few at a time, and waits for all.
func each(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, inFlight) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	group.Wait()
}

// firstOf is the first of several errors, if any: they mostly have one cause.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// libraryLog is where the library's lines go. All of them are about connections that broke.
type libraryLog struct{ log logr.Logger }

// Printf implements [zk.Logger].
func (l libraryLog) Printf(format string, args ...any) {
	l.log.V(1).Info("A connection to ZooKeeper changed", "reason", fmt.Sprintf(format, args...))
}
