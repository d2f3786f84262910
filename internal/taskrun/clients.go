package taskrun

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Clients keeps one HTTP client for each set of certificates in use. Its zero value is ready; its methods may be
// called concurrently.
type Clients struct {
	ping, pong time.Duration // zero: the defaults
	mu         sync.Mutex
	byFile     map[string]keptClient
}

type keptClient struct {
	pem    string
	client *http.Client
}

// Client returns the client that trusts the PEM certificates in caFile, or the system's where that is empty. The
// file is read at each call, so that certificates may be replaced. The client follows no redirects.
func (c *Clients) Client(caFile string) (*http.Client, error) {
	var pem []byte
	if caFile != "" {
		var err error
		//nolint:gosec // G304: reading the file that the configuration names is what this is for
		if pem, err = os.ReadFile(caFile); err != nil {
			return nil, fmt.Errorf("tls.caFile: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, ok := c.byFile[caFile]
	if ok && kept.pem == string(pem) {
		return kept.client, nil
	}
	client, err := c.make(caFile, pem)
	if err != nil {
		return nil, err
	}
	if ok {
		kept.client.CloseIdleConnections()
	}
	if c.byFile == nil {
		c.byFile = map[string]keptClient{}
	}
	c.byFile[caFile] = keptClient{string(pem), client}
	return client, nil
}

// A connection that has died silently must be found out well within a lease. A request that times out does not close
// one of HTTP/2. After pingAfter without a frame an answer to a ping is awaited for pongWithin.
const (
	pingAfter  = 3 * time.Second
	pongWithin = 2 * time.Second
	idleFor    = 90 * time.Second // then an unused connection is closed
	maxIdle    = 256              // for each server, as many as tasks may send to it at once
	connectFor = 10 * time.Second // at most, for each of dialing and the TLS handshake
)

func (c *Clients) make(caFile string, pem []byte) (*http.Client, error) {
	dialer := &net.Dialer{Timeout: connectFor}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: maxIdle,
		DialContext: dialer.DialContext, TLSHandshakeTimeout: connectFor, IdleConnTimeout: idleFor,
		HTTP2: &http.HTTP2Config{SendPingTimeout: cmp.Or(c.ping, pingAfter), PingTimeout: cmp.Or(c.pong, pongWithin)},
	}
	if caFile != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.caFile: %s holds no PEM certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{
		Transport: transport,
		// Only 2xx is success: a redirected POST would become a GET of something else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Close closes idle connections.
func (c *Clients) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kept := range c.byFile {
		kept.client.CloseIdleConnections()
	}
}
