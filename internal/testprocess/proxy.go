//go:build unix

package testprocess

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a network between clients and one server: a TCP proxy that breaks or blocks. Its methods may be called
// concurrently.
type Proxy struct {
	Addr string // HOST:PORT that clients dial

	listener net.Listener
	life     context.Context // of the connections; ended by Close
	end      context.CancelFunc
	wait     sync.WaitGroup
	clients  atomic.Int64

	mu     sync.Mutex
	target string        // of new connections
	open   chan struct{} // closed while bytes pass
	look   func(sent []byte)
	conns  map[net.Conn]struct{}
}

// Link puts a proxy in front of addr that ends with the test.
func Link(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	p, err := NewProxy(tb.Context(), Loopback+":0", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// NewProxy makes a proxy that listens on one address and passes all to another, until Close.
func NewProxy(ctx context.Context, listen, target string) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{
		Addr: listener.Addr().String(), target: target, listener: listener, life: life, end: end,
		open: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	close(p.open)
	p.wait.Go(p.serve)
	return p, nil
}

// Cut breaks every connection. What connects later works.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as of a network that breaks
		}
		_ = c.Close()
	}
}

// Block has nothing go through any more: connections stay open, new ones are taken, and nothing answers.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default: // blocked already
	}
}

// Unblock lets everything through again, first of all what waits.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Lead has new connections lead to another address. Those that are open stay as they are.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Clients is how many connections clients keep open.
func (p *Proxy) Clients() int { return int(p.clients.Load()) }

// Look has what clients send shown to look, piece by piece, before it goes on; nil ends that. For as long as look
// takes, a piece waits, and with it what follows on its connection. It is called concurrently, and must return before
// Close can.
func (p *Proxy) Look(look func(sent []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look = look
}

// Close ends the proxy and all connections through it. Closing twice does nothing.
func (p *Proxy) Close() {
	p.end()
	_ = p.listener.Close() // an answer is not waited for
	p.Cut()
	p.wait.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wait.Go(func() { p.join(client) })
	}
}

// join joins a client's connection to one of its own to the server, until either ends.
func (p *Proxy) join(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(p.life, "tcp", target)
	if err != nil || !p.add(server) {
		return // the server is down: so the client sees it
	}
	defer p.remove(server)
	var both sync.WaitGroup
	p.clients.Add(1)
	both.Go(func() {
		defer p.clients.Add(-1)
		p.pump(server, client, p.show)
	})
	both.Go(func() { p.pump(client, server, func([]byte) {}) })
	both.Wait()
}

// show shows what a client has sent.
func (p *Proxy) show(sent []byte) {
	p.mu.Lock()
	look := p.look
	p.mu.Unlock()
	if look != nil && len(sent) > 0 {
		look(sent)
	}
}

// pump passes bytes on until either side ends, and then ends the other's half.
func (p *Proxy) pump(to, from net.Conn, show func([]byte)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass() {
			return
		}
		show(buffer[:n])
		if _, failed := to.Write(buffer[:n]); failed != nil {
			_ = from.Close() // what comes is not read
			return
		}
		if err != nil {
			if err == io.EOF { //nolint:errorlint // Read returns it as it is
				_ = to.(*net.TCPConn).CloseWrite()
			} else {
				_ = to.Close()
			}
			return
		}
	}
}

// pass waits until bytes may go on. It is false once the proxy is closed.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
		return true
	case <-p.life.Done():
		return false
	}
}

// add keeps a connection for Cut, unless the proxy is closed, which closes it.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}
