package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

const (
	// dialTimeout bounds a connection's TCP and TLS handshakes.
	dialTimeout = time.Second
	// greetTimeout bounds the wait for a session on a new connection. A server that stands still takes connections all
	// the same: its operating system does. The library alone would wait for ten times as long as a session lives.
	greetTimeout = 1500 * time.Millisecond
	// minSilence is how long a server has to be silent before a call that got no answer gives it up.
	minSilence = 500 * time.Millisecond
)

// link is a connection that knows when it last heard of the server.
type link struct {
	net.Conn
	begun   time.Time
	heard   atomic.Int64 // nanoseconds after begun
	greeted atomic.Bool  // it has a session
	failed  func(error)  // gets why a read failed
}

// Read implements [net.Conn].
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.begun)))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.failed(err)
	}
	return n, err
}

// SetReadDeadline implements [net.Conn]. Until there is a session it is at most greetTimeout from now.
func (l *link) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(greetTimeout); !l.greeted.Load() && t.After(latest) {
		t = latest
	}
	return l.Conn.SetReadDeadline(t)
}

// silentSince says whether the server has said nothing since t, and that for a while. Pings are answered even where
// writes wait for a majority.
func (l *link) silentSince(t time.Time) bool {
	heard := l.begun.Add(time.Duration(l.heard.Load()))
	return heard.Before(t) && time.Since(t) >= minSilence
}

// dialer makes connections, with TLS where there is a configuration.
type dialer struct {
	tls *tls.Config
}

func (d dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if d.tls == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		return conn, nil
	}
	conn, err := (&tls.Dialer{Config: d.tls}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect with TLS to %s: %w", address, err)
	}
	return conn, nil
}

// hosts takes servers in turn, as [zk.HostProvider] asks. Names are resolved at each connection, and not once for all.
// So the pod of a server may get another address, and TLS sees the name that was asked for.
type hosts struct {
	all    []string
	next   int
	failed int // in a row
}

// Init implements [zk.HostProvider]. The servers come shuffled.
func (h *hosts) Init(servers []string) error {
	h.all = servers
	return nil
}

// Len implements [zk.HostProvider].
func (h *hosts) Len() int { return len(h.all) }

// Next implements [zk.HostProvider]. The library pauses for a second after each round in which no server was reached.
func (h *hosts) Next() (server string, retryStart bool) {
	server = h.all[h.next]
	h.next = (h.next + 1) % len(h.all)
	retryStart = h.failed > 0 && h.failed%len(h.all) == 0
	h.failed++
	return server, retryStart
}

// Connected implements [zk.HostProvider].
func (h *hosts) Connected() { h.failed = 0 }
