package zookeeper

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// sessionTimeout is what is asked for; servers give two of their ticks at least. Nothing of ours hangs on a session of
// ZooKeeper. It only says how soon a silent connection is given up: after two thirds of it.
const sessionTimeout = 4 * time.Second

// inFlight is how many requests of one call wait for their answers at a time.
const inFlight = 64

// maxConnections is how many connections one session of ZooKeeper has at most. The library keeps a channel for each
// watch until it fires, and at each connection all watches are set again. Another session begins without them.
const maxConnections = 20

// client is the one connection of a store. The library connects again by itself, to the next server.
type client struct {
	// has the library connect; events come with the number
	begin  func(number uint64) (*zk.Conn, <-chan zk.Event, error)
	user   string
	logins logins
	listen func(zk.Event) // gets all events, in their order among the replies; it must not block
	link   atomic.Pointer[link]
	// generation counts sessions and connections: what was answered in one generation came from one server, in order.
	generation atomic.Uint64

	mu      sync.Mutex
	lib     library
	closed  bool
	session chan struct{} // closed while there is a session, and the server knows the user
	trouble error         // why there is none
	refused chan struct{} // closed when to try again is no use; nil once there was a session
}

// library is what connects. It keeps its session as long as that lives.
type library struct {
	conn        *zk.Conn
	events      <-chan zk.Event
	number      uint64
	connections int      // that had a session
	known       []string // it names these users at each connection by itself
}

// connect begins to connect, and does not wait for it.
func connect(ctx context.Context, u storeuri.URI, d dialer, log logr.Logger, listen func(zk.Event)) (*client, error) {
	c := &client{
		user: u.User, logins: logins{source: d.source, pace: dbstore.Pace{Every: renewEvery}}, listen: listen,
		session: make(chan struct{}), refused: make(chan struct{}), trouble: errors.New("no server has answered yet"),
	}
	c.logins.latest()
	c.begin = func(number uint64) (*zk.Conn, <-chan zk.Event, error) {
		return zk.Connect(
			u.Hosts, sessionTimeout, zk.WithHostProvider(&hosts{}), zk.WithLogger(libraryLog{log}),
			zk.WithLogInfo(false),
			zk.WithEventCallback(func(e zk.Event) { c.event(number, e) }),
			zk.WithDialer(func(_, address string, _ time.Duration) (net.Conn, error) {
				return c.dial(ctx, number, d, address)
			}),
		)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.replace(); err != nil {
		return nil, fmt.Errorf("begin to connect: %w", err)
	}
	return c, nil
}

// replace begins a session in place of the one there is, if any. The caller holds mu.
func (c *client) replace() error {
	conn, events, err := c.begin(c.lib.number + 1)
	if err != nil {
		return err
	}
	if c.lib.conn != nil {
		go c.lib.conn.Close() // within a second, also where no server answers
	}
	c.lib = library{conn: conn, events: events, number: c.lib.number + 1}
	return nil
}

// conn is the library's connection of now.
func (c *client) conn() *zk.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lib.conn
}

// errReplaced ends what connects for a session that was replaced.
var errReplaced = errors.New("another session has begun")

// dial makes a connection for the library.
func (c *client) dial(ctx context.Context, number uint64, d dialer, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, address)
	if err != nil {
		c.fail(err)
		return nil, err
	}
	l := &link{Conn: conn, begun: time.Now()}
	l.failed = func(err error) { c.fail(fmt.Errorf("%s: %w", address, err)) }
	c.mu.Lock()
	defer c.mu.Unlock()
	if number != c.lib.number {
		_ = conn.Close()
		return nil, errReplaced
	}
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
func (c *client) event(number uint64, e zk.Event) {
	c.mu.Lock()
	if number != c.lib.number { // of a session that was replaced
		c.mu.Unlock()
		return
	}
	if e.Type == zk.EventSession {
		c.sessionEvent(e.State)
	}
	c.mu.Unlock()
	c.listen(e)
}

// sessionEvent notes that the state of the session has changed. The caller holds mu.
func (c *client) sessionEvent(s zk.State) {
	if s == zk.StateHasSession {
		generation := c.generation.Add(1)
		c.lib.connections++
		c.refused = nil
		if l := c.link.Load(); l != nil {
			l.greeted.Store(true)
		}
		if c.user == "" {
			c.open()
		} else {
			go c.authenticate(c.lib.conn, generation)
		}
		return
	}
	if c.isOpen() {
		c.session = make(chan struct{})
	}
	if s == zk.StateDisconnected && c.lib.connections >= maxConnections && !c.closed {
		if err := c.replace(); err != nil {
			c.trouble = err // the library goes on with the session that it has
		}
	}
}

// open lets requests begin. The caller holds mu.
func (c *client) open() {
	if !c.isOpen() {
		close(c.session)
	}
}

// isOpen says whether requests may begin. The caller holds mu.
func (c *client) isOpen() bool {
	select {
	case <-c.session:
		return true
	default:
		return false
	}
}

// authenticate names the user, in each generation of a session. ZooKeeper takes any password; what it is good for shows
// at the first znode. The library names again at a new connection whom it has named before.
func (c *client) authenticate(conn *zk.Conn, generation uint64) {
	all := c.logins.latest()
	c.mu.Lock()
	known := slices.Clone(c.lib.known)
	c.mu.Unlock()
	var err error
	for _, one := range all {
		if !slices.Contains(known, one) && err == nil {
			err = conn.AddAuth("digest", []byte(one))
			known = append(known, one)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.generation.Load() != generation || c.lib.conn != conn: // it is done again for the next one
	case err != nil:
		c.trouble = fmt.Errorf("name the user: %w", err)
	default:
		c.lib.known = known
		c.open()
	}
}

// renewEvery is how often a refusal has the URI looked at again.
const renewEvery = time.Second

// unauthorized has a password that was renewed be named now: others may have given znodes to the new one.
func (c *client) unauthorized() {
	c.mu.Lock()
	conn, open := c.lib.conn, c.isOpen()
	c.mu.Unlock()
	if c.user != "" && open && c.logins.pace.Let(time.Now()) {
		go c.authenticate(conn, c.generation.Load())
	}
}

// maxLogins is how many logins one session names.
const maxLogins = 4

// logins are those that the URI has named so far. ZooKeeper has no passwords: each znode says whose it is, and what it
// belongs to is changed one by one. So the old ones are named as well, and znodes are made for the newest.
type logins struct {
	source *storeuri.Source[login]
	pace   dbstore.Pace

	mu  sync.Mutex
	all []string // USER:PASSWORD, the newest at the end
}

// latest reads the URI again, and lists all.
func (l *logins) latest() []string {
	now := l.source.Get().digest()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now != "" {
		l.all = append(slices.DeleteFunc(l.all, func(one string) bool { return one == now }), now)
		l.all = l.all[max(0, len(l.all)-maxLogins):]
	}
	return slices.Clone(l.all)
}

// acl is what znodes are made with: they belong to the newest login alone, or to anyone.
func (l *logins) acl() []zk.ACL {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return zk.WorldACL(zk.PermAll)
	}
	user, password, _ := strings.Cut(l.all[len(l.all)-1], ":")
	return zk.DigestACL(zk.PermAll, user, password)
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
		value, err := request(c.conn())
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if errors.Is(a.err, zk.ErrNoAuth) {
			c.unauthorized()
		}
		return a.value, a.err
	case <-ctx.Done():
		if l := c.link.Load(); l != nil && l.silentSince(sent) {
			_ = l.Close() // another server may answer
		}
		return none, ctx.Err()
	}
}

// close ends the session and waits for the library's loops.
func (c *client) close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	lib := c.lib
	c.mu.Unlock()
	lib.conn.Close()
	if l := c.link.Load(); l != nil {
		_ = l.Close()
	}
	for {
		select {
		case _, open := <-lib.events:
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
