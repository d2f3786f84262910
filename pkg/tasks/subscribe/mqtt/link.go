package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/session/state"
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
func dial(ctx context.Context, server *url.URL, files TLS) (*conn, error) {
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
