//go:build unix

package testbroker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// EnvRequired is a variable that, set to "required", has tests fail that lack their broker, instead of being skipped.
const EnvRequired = "SHARDCTL_TEST_BROKERS"

// provideTimeout bounds the start of a broker, a fetch of its programs included.
const provideTimeout = 10 * time.Minute

// writtenTimeout bounds [Broker.WaitWritten]. The slowest writes after a few seconds.
const writtenTimeout = time.Minute

// Broker is a test's [Server]. Its methods fail the test on an error, and so are called in the test's goroutine. Config
// lines are those of [Options].
type Broker struct {
	Addr   string // HOST:PORT of clients
	server *Server
	tb     testing.TB
}

// Kafka starts a Kafka broker in KRaft mode, without topics. Topics are not made by themselves. For a network that can
// be cut use [Broker.Link].
func Kafka(tb testing.TB, config ...string) *Broker {
	tb.Helper()
	return start(tb, KindKafka, config)
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

// Kill ends it as kill -9 does. The data stays.
func (b *Broker) Kill() { b.server.Kill() }

// Stop ends it in an orderly way.
func (b *Broker) Stop() {
	b.tb.Helper()
	if err := b.server.Stop(); err != nil {
		b.tb.Fatal(err)
	}
}

// Start starts it again on the same data and port, and returns once it serves clients.
func (b *Broker) Start() {
	b.tb.Helper()
	if err := b.server.Start(context.WithoutCancel(b.tb.Context())); err != nil {
		b.tb.Fatal(err)
	}
}

// Freeze stops all its threads: connections stay open and nothing answers.
func (b *Broker) Freeze() { b.server.Freeze() }

// Thaw lets it go on.
func (b *Broker) Thaw() { b.server.Thaw() }

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
	skipShort(tb, kind)
	dir := tb.TempDir()
	server, err := open(kind, dir, config)
	if err != nil {
		fail(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(server.LogTail(20))
		}
		server.Close()
	})
	return &Broker{Addr: server.Addr(), server: server, tb: tb}
}

func open(kind Kind, dir string, config []string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), provideTimeout)
	defer cancel()
	return Open(ctx, kind, dir, Options{Config: config})
}

func skipShort(tb testing.TB, kind Kind) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("needs a real %s, which go test -short leaves out", kind)
	}
	if os.Getenv(EnvRequired) == "none" {
		tb.Skipf("needs a real %s, which make brokers-short has", kind)
	}
}

// fail ends a test whose broker cannot be had.
func fail(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrMissing) && os.Getenv(EnvRequired) != "required" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// shared are the brokers of this test process, each started by the first test that asks for it.
var shared struct {
	sync.Mutex
	dir     string
	servers map[Kind]*Server
	errs    map[Kind]error
}

// Shared returns the test process's own broker of a kind. A package that uses it has a TestMain with [Main]. What tests
// make in it has names of their own: see [Name]. Who kills it starts it again, and does not run in parallel.
func Shared(tb testing.TB, kind Kind) *Broker {
	tb.Helper()
	skipShort(tb, kind)
	shared.Lock()
	defer shared.Unlock()
	server, err := sharedServer(kind)
	if err != nil {
		fail(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(server.LogTail(20))
		}
	})
	return &Broker{Addr: server.Addr(), server: server, tb: tb}
}

func sharedServer(kind Kind) (_ *Server, err error) {
	if shared.servers[kind] != nil || shared.errs[kind] != nil {
		return shared.servers[kind], shared.errs[kind]
	}
	if shared.servers == nil {
		shared.servers, shared.errs = map[Kind]*Server{}, map[Kind]error{}
		if shared.dir, err = os.MkdirTemp("", "shardctl-brokers-"); err != nil {
			return nil, fmt.Errorf("directory of the brokers: %w", err)
		}
	}
	shared.servers[kind], shared.errs[kind] = open(kind, filepath.Join(shared.dir, string(kind)), nil)
	return shared.servers[kind], shared.errs[kind]
}

// Main runs a package's tests and then ends the shared brokers. It returns the exit status.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, server := range shared.servers {
		if server != nil {
			server.Close()
		}
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, "remove the brokers' data:", err)
			return max(code, 1)
		}
	}
	return code
}

// Name is a name for a topic, queue or stream that no other test uses: letters and digits, beginning with a letter.
func Name() string { return "t" + strings.ToLower(rand.Text()[:12]) }
