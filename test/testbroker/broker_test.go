//go:build unix

package testbroker_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

// starts are the functions that tests call.
var starts = map[testbroker.Kind]func(testing.TB, ...string) *testbroker.Broker{
	testbroker.KindKafka:     testbroker.Kafka,
	testbroker.KindRabbitMQ:  testbroker.RabbitMQ,
	testbroker.KindMosquitto: testbroker.Mosquitto,
	testbroker.KindRedis:     testbroker.Redis,
	testbroker.KindNATS:      testbroker.NATS,
}

func TestBrokersKeepTheirDataAndTheirPort(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	for _, kind := range testbroker.Kinds() {
		t.Run(string(kind), func(t *testing.T) { keeps(t, starts[kind](t), clients[kind]) })
	}
}

func keeps(t *testing.T, b *testbroker.Broker, c client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	check(t, "prepare", c.prepare(ctx, b.Addr))
	check(t, "write", c.write(ctx, b.Addr, "one"))
	b.WaitWritten(map[testbroker.Kind]string{
		testbroker.KindMosquitto: "one", testbroker.KindRabbitMQ: "%2F_t", // the queue, as it writes names
	}[b.Server().Kind()])

	b.Kill()
	if _, err := net.DialTimeout("tcp", b.Addr, time.Second); err == nil {
		t.Error("a killed broker takes connections")
	}
	b.Start()
	check(t, "write after a kill", c.write(ctx, b.Addr, "two"))

	b.Freeze()
	brief, end := context.WithTimeout(ctx, time.Second)
	if err := answer(brief, b.Addr); err == nil {
		t.Error("a frozen broker answers")
	}
	end()
	b.Thaw()
	check(t, "write after a freeze", c.write(ctx, b.Addr, "three"))

	b.Stop()
	b.Start()
	got, err := c.read(ctx, b.Addr, 3)
	check(t, "read", err)
	if want := []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("it kept %q, want %q", got, want)
	}
}

// answer sends what no protocol knows, and waits for anything: bytes, or the end of the connection.
func answer(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	end, _ := ctx.Deadline()
	if err := conn.SetDeadline(end); err != nil {
		return err
	}
	_, _ = conn.Write([]byte("GARBAGE\r\n\r\n"))
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestSharedBrokerIsOne(t *testing.T) {
	first, second := testbroker.Shared(t, testbroker.KindRedis), testbroker.Shared(t, testbroker.KindRedis)
	if first.Addr != second.Addr {
		t.Errorf("two brokers, %s and %s", first.Addr, second.Addr)
	}
	check(t, "write", redisWrite(t.Context(), second.Addr, "shared"))
}

func TestConfigFollowsOurs(t *testing.T) {
	b := testbroker.Redis(t, "requirepass secret")
	if err := redisWrite(t.Context(), b.Addr, "x"); err == nil {
		t.Error("without the password somebody may write")
	}
}

func TestOpenSaysWhyABrokerDoesNotStart(t *testing.T) {
	testbroker.Need(t, testbroker.KindRedis)
	_, err := testbroker.Open(t.Context(), testbroker.KindRedis, t.TempDir(), testbroker.Options{
		Config: []string{"no-such-setting 1"},
	})
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range []string{"start redis at 127.0.0.1:", "the server exited", "no-such-setting"} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// A client of Kafka dials what the broker names, which is the link.
func TestKafkaStaysBehindItsLink(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	b := testbroker.Shared(t, testbroker.KindKafka)
	link := b.Link()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, "prepare", kafkaPrepare(ctx, link.Addr))
	check(t, "write", kafkaWrite(ctx, link.Addr, "through"))
	link.Block()
	brief, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	if err := kafkaWrite(brief, link.Addr, "blocked"); err == nil {
		t.Error("a message was confirmed through a blocked link")
	}
	link.Unblock()
	check(t, "write", kafkaWrite(ctx, link.Addr, "again"))
}
