//go:build unix

package testprocess

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
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
	dialled  atomic.Int64
	gate     Gate
	sent     Relay
	answered Relay

	mu     sync.Mutex
	target string // of new connections
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

// Relay passes on what one side of a connection sends, until either side ends. ctx ends with the proxy.
type Relay func(ctx context.Context, to, from net.Conn)

// Late passes on what one side sends a while later, as from far away: how much is on its way does not slow it down.
func Late(delay time.Duration) Relay {
	type piece struct {
		data []byte
		due  time.Time
		err  error
	}
	return func(ctx context.Context, to, from net.Conn) {
		way := make(chan piece, 1024)
		go func() {
			defer close(way)
			for {
				buffer := make([]byte, 16<<10)
				n, err := from.Read(buffer)
				select {
				case way <- piece{buffer[:n], time.Now().Add(delay), err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
		for p := range way {
			if clock.Sleep(ctx, time.Until(p.due)) != nil {
				break
			}
			if _, err := to.Write(p.data); err != nil || p.err != nil {
				break
			}
		}
		_, _ = to.Close(), from.Close()
		for range way { // until the reader has seen that
		}
	}
}

// Far puts a proxy in front of addr that ends with the test, and that is as far away as this time of a round trip.
// Connections are taken at once, so it takes one trip less to connect.
func Far(tb testing.TB, addr string, trip time.Duration) *Proxy {
	tb.Helper()
	p, err := NewRelay(tb.Context(), Loopback+":0", addr, Late(trip/2), Late(trip/2))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// NewProxy makes a proxy that listens on one address and passes all to another, until Close.
func NewProxy(ctx context.Context, listen, target string) (*Proxy, error) {
	return NewRelay(ctx, listen, target, nil, nil)
}

// NewRelay is [NewProxy] with what passes on what clients send, and what the server answers. nil is that of a proxy.
// Block and Look act on that alone.
func NewRelay(ctx context.Context, listen, target string, sent, answered Relay) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{
		Addr: listener.Addr().String(), target: target, listener: listener, life: life, end: end,
		conns: map[net.Conn]struct{}{}, sent: sent, answered: answered,
	}
	if sent == nil {
		p.sent = func(_ context.Context, to, from net.Conn) { p.pump(to, from, p.show) }
	}
	if answered == nil {
		p.answered = func(_ context.Context, to, from net.Conn) { p.pump(to, from, func([]byte) {}) }
	}
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
func (p *Proxy) Block() { p.gate.Shut() }

// Unblock lets everything through again, first of all what waits.
func (p *Proxy) Unblock() { p.gate.Open() }

// Lead has new connections lead to another address. Those that are open stay as they are.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Clients is how many connections clients keep open.
func (p *Proxy) Clients() int { return int(p.clients.Load()) }

// Dialled is how many connections clients have made since the proxy began.
func (p *Proxy) Dialled() int { return int(p.dialled.Load()) }

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
		p.dialled.Add(1)
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
		p.sent(p.life, server, client)
	})
	both.Go(func() { p.answered(p.life, client, server) })
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
		if p.gate.Pass(p.life) != nil {
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

// Dial connects until ctx ends; the connection's deadline is that of ctx.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	return conn, nil
}

// Ask connects, sends, and fills reply.
func Ask(ctx context.Context, addr string, question, reply []byte) error {
	conn, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(question); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, reply)
	return err
}

// AskLine connects, sends, and returns the first line.
func AskLine(ctx context.Context, addr, question string) (string, error) {
	conn, err := Dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprint(conn, question); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// Gate lets what goes through a network pass, or wait. The zero value is open. Its methods may be called concurrently.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it is opened; nil: it is open
}

// Shut has everything wait.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets everything pass, first of all what waits.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// Pass waits until the gate is open. The error is that of ctx.
func (g *Gate) Pass(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// PutFile writes to a path what other files hold, one behind the other, and returns the path. A server that names it
// finds another certificate there after its next call.
func PutFile(tb testing.TB, path string, from ...string) string {
	tb.Helper()
	var all []byte
	for _, file := range from {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, content...)
	}
	if err := os.WriteFile(path, all, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Certificate writes a certificate for 127.0.0.1 that signs itself, and its key, as PEM files of the test. It is valid
// for an hour, for servers and for clients, under this common name.
func Certificate(tb testing.TB, name string) (certFile, keyFile string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.ParseIP(Loopback)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	file := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			tb.Fatal(err)
		}
		return path
	}
	return file("cert.pem", "CERTIFICATE", der), file("key.pem", "PRIVATE KEY", secret)
}
