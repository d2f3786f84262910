package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	"github.com/eclipse/paho.golang/paho/session/state"

	"github.com/shardctl/shardctl/internal/connect"
)

// conn is a connection that says when it is closed. Its methods may be called concurrently. The client locks it for
// each packet, which it writes in pieces.
type conn struct {
	net.Conn
	sync.Mutex
	once   sync.Once
	closed chan struct{}
}

// Close closes it, once.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
	})
	return err //nolint:wrapcheck // it is the connection's
}

// dial connects to a server.
func dial(ctx context.Context, server *url.URL, files connect.TLS) (*conn, error) {
	if server.Scheme != "mqtts" {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", server.Host)
		if err != nil {
			return nil, unreachable(err)
		}
		return &conn{Conn: c, closed: make(chan struct{})}, nil
	}
	config, err := files.Config(Name)
	if err != nil {
		return nil, err
	}
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", server.Host)
	if err != nil {
		return nil, unreachable(err)
	}
	return &conn{Conn: c, closed: make(chan struct{})}, nil
}

func unreachable(err error) error {
	return fmt.Errorf("cannot be reached, check that it runs and that mqtt.servers names it: %w", err)
}

// acks is the client's session, less that it acknowledges a message once a handler has returned: that is for Ack.
type acks struct{ *state.State }

// Ack does nothing.
func (acks) Ack(*packets.Publish) error { return nil }

var errClosed = errors.New("the connection has ended")

// pinger asks the broker whether it is there: at an interval, and behind acknowledgements, which the broker does not
// confirm. It reads a connection's packets in their order, so an answer says that all before has arrived. It implements
// paho.Pinger, and its methods may be called concurrently.
type pinger struct {
	asking sync.Mutex // for one request after the other
	conn   *conn
	fail   func(error) // ends the subscription: closing the connection would give it another reason
	mu     sync.Mutex  // guards what follows
	sent   uint64
	heard  uint64
	answer chan struct{} // closed and replaced at each answer
}

var errSilent = errors.New("the broker is connected and does not answer: check whether it hangs, and the network to it")

func newPinger(c *conn, fail func(error)) *pinger {
	return &pinger{conn: c, fail: fail, answer: make(chan struct{})}
}

// Run asks every keepAlive seconds, until ctx ends or the broker is silent for as long.
func (p *pinger) Run(ctx context.Context, _ net.Conn, keepAlive uint16) error {
	interval := time.Duration(keepAlive) * time.Second
	if interval == 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, interval)
		err := p.ask(limited)
		cancel()
		if err != nil && ctx.Err() == nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = errSilent
			}
			p.fail(err)
			return err
		}
	}
}

// ask sends a request and waits for its answer.
func (p *pinger) ask(ctx context.Context) error {
	number, failed := p.send()
	for {
		p.mu.Lock()
		heard, answer := p.heard >= number, p.answer
		p.mu.Unlock()
		if heard {
			return nil
		}
		select {
		case <-answer:
		case err := <-failed:
			if err != nil {
				return fmt.Errorf("ask the broker: %w", err)
			}
			failed = nil
		case <-p.conn.closed:
			return errClosed
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// send sends a request in the background, since a blocked connection may take no bytes, and says which it is.
func (p *pinger) send() (number uint64, failed <-chan error) {
	p.mu.Lock()
	p.sent++
	number = p.sent
	p.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		p.asking.Lock()
		defer p.asking.Unlock()
		_, err := packets.NewControlPacket(packets.PINGREQ).WriteTo(p.conn)
		result <- err
	}()
	return number, result
}

// PingResp notes an answer. The broker answers in the order of requests.
func (p *pinger) PingResp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard++
	close(p.answer)
	p.answer = make(chan struct{})
}

// PacketSent does nothing: requests go at their interval.
func (p *pinger) PacketSent() {}

// PacketReceived does nothing.
func (p *pinger) PacketReceived() {}

// SetDebug does nothing.
func (p *pinger) SetDebug(log.Logger) {}
