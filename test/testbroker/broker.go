//go:build unix

package testbroker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// Kind is a kind of broker.
type Kind string

// The kinds of brokers.
const (
	KindKafka     Kind = "kafka"
	KindRabbitMQ  Kind = "rabbitmq"
	KindMosquitto Kind = "mosquitto"
	KindRedis     Kind = "redis"
	KindNATS      Kind = "nats"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{KindKafka, KindRabbitMQ, KindMosquitto, KindRedis, KindNATS} }

// ErrMissing says that a broker cannot be provided. Its text goes on with what to install.
var ErrMissing = testprocess.ErrMissing

// newSoftware is what runs a kind.
func newSoftware(k Kind) (testprocess.Software, error) {
	switch k {
	case KindKafka:
		return &kafka{}, nil
	case KindRabbitMQ:
		return &rabbitmq{}, nil
	case KindMosquitto:
		return &mosquitto{}, nil
	case KindRedis:
		return testservers.NewRedis("appendfsync everysec"), nil // the file outlives the process
	case KindNATS:
		return &nats{}, nil
	default:
		return nil, fmt.Errorf("no kind of broker is called %q; there are %v", k, Kinds())
	}
}

// Provide fetches what a kind needs, so that the first test need not wait for it. Its error wraps [ErrMissing] when
// something is to be installed.
func Provide(ctx context.Context, k Kind) error {
	s, err := newSoftware(k)
	if err != nil {
		return err
	}
	return s.Provide(ctx)
}

// family are the brokers of this test process.
var family = &testprocess.Family{Suite: suites.Brokers}

// writtenTimeout bounds [Broker.WaitWritten]. The slowest writes after a few seconds.
const writtenTimeout = time.Minute

// Broker is a test's [Server]. Its methods fail the test on an error, and so are called in the test's goroutine. Config
// lines are those of [Options].
type Broker struct {
	*testprocess.Fixture
	server *Server
	tb     testing.TB
}

// Kafka starts a Kafka broker in KRaft mode, without topics. Topics are not made by themselves. For a network that can
// be cut use [Broker.Link].
func Kafka(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindKafka, config)
}

// SecondKafka starts a broker in the cluster of a [Kafka], as node 2. It has no controller, so it may be killed.
func SecondKafka(tb testing.TB, first *Broker) *Broker {
	tb.Helper()
	return broker(tb, testprocess.Fresh(tb, family, string(KindKafka),
		func(ctx context.Context, dir string) (*Server, error) {
			return openAs(ctx, KindKafka, &kafka{first: first.server.Site()}, dir, Options{})
		}))
}

// RabbitMQ starts a RabbitMQ node. Its user and password are guest and guest. It writes down a few seconds later which
// quorum queues there are: what is in a queue that is younger than that is lost in a Kill, and the queue hangs. See
// [Broker.WaitWritten].
func RabbitMQ(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindRabbitMQ, config)
}

// Mosquitto starts a Mosquitto that lets everyone in. It writes its sessions down every second and in an orderly stop.
// What is younger than that is lost in a Kill. See [Broker.WaitWritten].
func Mosquitto(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindMosquitto, config)
}

// Redis starts a Redis that appends each write to its file.
func Redis(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindRedis, config)
}

// NATS starts a NATS server with JetStream.
func NATS(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindNATS, config)
}

// WaitWritten waits until a text stands in the file of what a Kill may lose: with Mosquitto a message or a topic of a
// session, with RabbitMQ the name of a quorum queue. Other brokers have written what they confirmed.
func (b *Broker) WaitWritten(text string) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.tb.Context(), writtenTimeout)
	defer cancel()
	if err := b.server.WaitWritten(ctx, text); err != nil {
		b.tb.Fatal(err)
	}
}

// Server is what runs.
func (b *Broker) Server() *Server { return b.server }

// start starts a broker that ends with the test.
func start(tb testing.TB, kind Kind, config []string) *Broker {
	tb.Helper()
	return broker(tb, testprocess.Fresh(tb, family, string(kind),
		func(ctx context.Context, dir string) (*Server, error) {
			return Open(ctx, kind, dir, Options{Config: config})
		}))
}

// Shared returns the test process's own broker of a kind. A package that uses it has a TestMain with
// [testprocess.Main]. What tests make in it has names of their own: see [Name]. Who kills it starts it again, and does
// not run in parallel.
func Shared(tb testing.TB, kind Kind) *Broker {
	tb.Helper()
	return broker(tb, testprocess.Shared(tb, family, string(kind),
		func(ctx context.Context, dir string) (*Server, error) {
			return Open(ctx, kind, dir, Options{})
		}))
}

func broker(tb testing.TB, server *Server) *Broker {
	tb.Helper()
	return &Broker{Fixture: testprocess.NewFixture(tb, server.Server), server: server, tb: tb}
}

// Need skips or fails a test that is to open a broker of a kind by itself, where that cannot be had.
func Need(tb testing.TB, k Kind) {
	tb.Helper()
	family.Need(tb, string(k), func(ctx context.Context) error { return Provide(ctx, k) })
}

// Name is a name for a topic, queue or stream that no other test uses: letters and digits, beginning with a letter.
func Name() string { return testprocess.Name() }

// ErrExited says that a broker's process ended by itself while it started.
var ErrExited = testprocess.ErrExited

// Options are for [Open]. The zero value is a broker as tests want it.
type Options struct {
	// Config are lines that follow ours in the broker's own configuration file: server.properties, rabbitmq.conf,
	// mosquitto.conf, redis.conf, nats.conf.
	Config []string
}

// Server is a broker, running or not. Its methods may be called concurrently.
type Server struct {
	*testprocess.Server
	kind Kind
}

// Open starts a broker that keeps its data in dir, which is made when missing, and returns once it serves clients. On
// a quiet machine that takes up to ten seconds. ctx bounds the start only. Call Close at the end; dir stays.
func Open(ctx context.Context, kind Kind, dir string, opts Options) (*Server, error) {
	s, err := newSoftware(kind)
	if err != nil {
		return nil, err
	}
	return openAs(ctx, kind, s, dir, opts)
}

func openAs(ctx context.Context, kind Kind, s testprocess.Software, dir string, opts Options) (*Server, error) {
	server, err := testprocess.Open(ctx, string(kind), s, dir, testprocess.Options{Config: opts.Config})
	if err != nil {
		return nil, err
	}
	return &Server{Server: server, kind: kind}, nil
}

// Kind is the broker's.
func (b *Server) Kind() Kind { return b.kind }

// lateFiles are where a broker writes what it has confirmed before, as patterns within its directory.
var lateFiles = map[Kind]string{
	KindMosquitto: "mosquitto.db",
	KindRabbitMQ:  "mnesia/*/quorum/*/names.dets",
}

// writtenEvery is how often the files are looked at.
const writtenEvery = 20 * time.Millisecond

// WaitWritten is [Broker.WaitWritten] without a test.
func (b *Server) WaitWritten(ctx context.Context, text string) error {
	pattern, late := lateFiles[b.kind]
	for late {
		found, err := contains(b.Site().Path(pattern), text)
		if found || err != nil {
			return err
		}
		if clock.Sleep(ctx, writtenEvery) != nil {
			return fmt.Errorf("%s at %s has not written %q to %s: %w", b.kind, b.Addr(), text, pattern,
				context.Cause(ctx))
		}
	}
	return nil
}

// contains says whether a text stands in any file of a pattern. A file that goes meanwhile contains nothing.
func contains(pattern, text string) (bool, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true, nil
		}
	}
	return false, nil
}

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
