//go:build unix

package testbroker

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// Proxy is a network between clients and one server: a TCP proxy that breaks or blocks.
type Proxy = testprocess.Proxy

// Link puts a proxy in front of addr that ends with the test. A client of Kafka dials what the broker names: use
// [Broker.Link] for it.
func Link(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	return testprocess.Link(tb, addr)
}

// Link puts a proxy in front of the broker that ends with the test. With Kafka, clients of the link dial
// the link; there is one at a time.
func (b *Broker) Link() *Proxy {
	b.tb.Helper()
	p, err := b.server.Link(b.tb.Context())
	if err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(p.Close)
	return p
}

// Link is [Broker.Link] without a test. The caller closes it.
func (b *Server) Link(ctx context.Context) (*Proxy, error) {
	if b.kind == KindKafka {
		return testprocess.NewProxy(ctx, b.Site().Addr(kafkaLink), b.Site().Addr(kafkaLinked))
	}
	return testprocess.NewProxy(ctx, testprocess.Loopback+":0", b.Addr())
}

// Certificate writes a certificate for 127.0.0.1 that signs itself, and its key, as PEM files of the test. It is valid
// for an hour, for servers and for clients.
func Certificate(tb testing.TB) (certFile, keyFile string) {
	tb.Helper()
	return testprocess.Certificate(tb, "broker")
}
