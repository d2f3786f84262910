//go:build unix

package testbroker

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// EnvRequired is a variable that, set to "required", has tests fail that lack their broker, instead of being skipped.
// Set to "none", no broker is found, and all of them are skipped.
const EnvRequired = "SHARDCTL_TEST_BROKERS"

// family are the brokers of this test process.
var family = &testprocess.Family{Variable: EnvRequired, Target: "make brokers-short"}

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
