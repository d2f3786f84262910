//go:build unix

package testmongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxMessage is the largest message of MongoDB's protocol, and a margin.
const maxMessage = 64 << 20

// Direction is a way through a link.
type Direction int

// The two ways through a link.
const (
	Sent     Direction = iota // from the client to the servers
	Answered                  // from the servers to the client
)

// A Link is one client's network: it can be cut and slowed without any other client's noticing. In front of each node
// stands a proxy. A driver dials the addresses that the servers name, not those of its URI. So the proxies change the
// addresses in what the servers say into their own. Both are text of the same length, which keeps every message
// well-formed.
//
// A cut link swallows: connections stay open, new ones are taken, and nothing goes through. What was sent meanwhile
// arrives once it is healed, even when the sender has long closed the connection. So it is with TCP, which sends again
// what got lost. Its methods may be called concurrently.
type Link struct {
	uri   string
	lanes [2]*lane
	gates []*gate
	life  context.Context // of the proxies; ended by Close
	end   context.CancelFunc
	wait  sync.WaitGroup
}

// A gate is the proxy of one node.
type gate struct {
	listener net.Listener
	node     string // the node's address
	own      string // the proxy's
}

// Link makes a link to the set, open and fast. Its URI has no database and no name of an application.
func (rs *ReplicaSet) Link(ctx context.Context) (*Link, error) {
	if rs.external != "" {
		return nil, ErrExternal
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	l := &Link{uri: rs.URI(), lanes: [2]*lane{newLane(), newLane()}, life: life, end: end}
	for _, n := range rs.nodes {
		listener, err := listenLike(ctx, n.Addr())
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("proxy for %s: %w", n.Addr(), err)
		}
		g := &gate{listener: listener, node: n.Addr(), own: listener.Addr().String()}
		l.gates = append(l.gates, g)
		l.uri = strings.ReplaceAll(l.uri, g.node, g.own)
	}
	for _, g := range l.gates {
		l.wait.Go(func() { l.serve(g) })
	}
	return l, nil
}

// listenLike listens on a free port with as many digits as that of addr.
func listenLike(ctx context.Context, addr string) (net.Listener, error) {
	for range 100 {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		if len(listener.Addr().String()) == len(addr) {
			return listener, nil
		}
		_ = listener.Close() // try the next
	}
	return nil, errors.New("no free port with as many digits")
}

// URI is the connection string of the client whose network this is.
func (l *Link) URI() string { return l.uri }

// Cut has nothing go through any more in these directions; in both when none is named.
func (l *Link) Cut(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{Sent, Answered}
	}
	for _, d := range directions {
		l.lanes[d].cut()
	}
}

// Heal lets everything through again, first of all what waits.
func (l *Link) Heal() {
	for _, lane := range l.lanes {
		lane.heal()
	}
}

// Slow delays each message in a direction by what delay says of it, which may be nothing; nil ends that. The messages
// of one connection stay in order.
func (l *Link) Slow(d Direction, delay func(message []byte) time.Duration) { l.lanes[d].slow(delay) }

// Close ends the proxies and all connections through them.
func (l *Link) Close() {
	l.end()
	for _, g := range l.gates {
		_ = g.listener.Close() // an answer is not waited for
	}
	l.wait.Wait()
}

func (l *Link) serve(g *gate) {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		l.wait.Go(func() { l.connect(g, client) })
	}
}

// connect joins a client's connection to one of its own to the node, until both sides have ended.
func (l *Link) connect(g *gate, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(l.life, "tcp", g.node)
	if err != nil {
		return // the node is down: so the client sees it
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(l.life, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { l.pump(server, client, l.lanes[Sent], func(m []byte) []byte { return m }) })
	both.Go(func() { l.pump(client, server, l.lanes[Answered], l.renamed) })
	both.Wait()
}

// pump passes messages on until either side ends, and then says so to the other.
func (l *Link) pump(to, from net.Conn, lane *lane, change func([]byte) []byte) {
	defer func() {
		_ = lane.pass(l.life, nil) // the end of a connection is swallowed too
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	for {
		message, err := readMessage(from)
		if err != nil {
			return
		}
		if lane.pass(l.life, message) != nil {
			return
		}
		if _, err := to.Write(change(message)); err != nil {
			_ = from.Close() // what comes is not read
			return
		}
	}
}

// renamed is a server's message with the proxies' addresses for the nodes'.
func (l *Link) renamed(message []byte) []byte {
	for _, g := range l.gates {
		message = bytes.ReplaceAll(message, []byte(g.node), []byte(g.own))
	}
	return message
}

// readMessage reads one message: its length comes first, itself included.
func readMessage(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < 16 || size > maxMessage {
		return nil, errors.New("a message of " + strconv.Itoa(int(size)) + " bytes: not MongoDB's protocol")
	}
	message := make([]byte, size)
	copy(message, head[:])
	_, err := io.ReadFull(from, message[len(head):])
	return message, err
}

// A lane is one direction of all connections of a link.
type lane struct {
	mu    sync.Mutex
	open  chan struct{} // closed while messages pass
	delay func([]byte) time.Duration
}

func newLane() *lane {
	l := &lane{open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *lane) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default: // cut already
	}
}

func (l *lane) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

func (l *lane) slow(delay func([]byte) time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// pass waits until a message may go on; nil is the end of a connection.
func (l *lane) pass(ctx context.Context, message []byte) error {
	l.mu.Lock()
	open, delay := l.open, l.delay
	l.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return ctx.Err()
	}
	if delay == nil || message == nil {
		return nil
	}
	wait := delay(message)
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
