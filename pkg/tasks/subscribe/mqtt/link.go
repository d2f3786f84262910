package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/session/state"
)

// conn is a connection that says when it is closed. Its methods may be called concurrently. The client locks it for each
// packet, which it writes in pieces.
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
	config, err := files.config()
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

// config reads the files. They are read again at each Open, as certificates are renewed.
func (t TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("mqtt.tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("mqtt.tls.caFile: %s has no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("mqtt.tls: certFile and keyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// acks is the client's session, less that it acknowledges a message once a handler has returned: that is for Ack.
type acks struct{ *state.State }

// Ack does nothing.
func (acks) Ack(*packets.Publish) error { return nil }

var errClosed = errors.New("the connection has ended")
