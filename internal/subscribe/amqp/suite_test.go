//go:build unix

package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

// topic is a queue of a kind behind a link.
func topic(t *testing.T, kind string) subscribetest.Topic {
	t.Helper()
	broker := testbroker.Shared(t, testbroker.KindRabbitMQ)
	link := testbroker.Link(t, broker.Addr)
	a := dialBroker(t, broker.Addr)
	queue, letters := a.declare(kind), a.declare("classic")
	source := amqp.Source{URL: "amqp://" + link.Addr, Queue: queue}
	topic := subscribetest.Topic{
		Source:  func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, m ...subscribe.Message) { t.Helper(); a.publish(queue, m...) },
		Letters: letters,
		ReadLetters: func(t *testing.T, n int) (read []subscribe.Message) {
			t.Helper()
			for _, d := range a.read(letters, n) {
				m := amqp.Read(d)
				m.Key = []byte(m.Headers["Shardctl-Dead-Key"])
				delete(m.Headers, "Shardctl-Dead-Key")
				read = append(read, m)
			}
			return read
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
	}
	topic.IsQueue = kind != "stream"
	if kind == "stream" {
		source.Stream = &amqp.Stream{}
		topic.InStore, topic.AcksInStore = topic.Source, true
		topic.WhenMissing = func(_ *testing.T, missing string, _ bool) subscribe.Source {
			chosen := source
			chosen.Stream = &amqp.Stream{Missing: missing}
			return chosen
		}
		topic.MakeAgain = func(t *testing.T) {
			t.Helper()
			if _, err := a.QueueDelete(queue, false, false, false); err != nil {
				t.Error(err)
			}
			a.declareAs(queue, kind)
		}
	}
	return topic
}

func TestClassicQueue(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, "classic") })
}

func TestQuorumQueue(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, "quorum") })
}

func TestStream(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, "stream") })
}

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// admin is a test's own channel to a broker.
type admin struct {
	*amqp091.Channel
	returned <-chan amqp091.Return // what no queue took
	t        *testing.T
}

func dialBroker(t *testing.T, addr string) admin {
	t.Helper()
	conn, err := amqp091.Dial("amqp://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a := admin{t: t}
	if a.Channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	a.returned = a.NotifyReturn(make(chan amqp091.Return, 100))
	if err := a.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return a
}

// declare makes a queue with pairs of arguments that is gone with the test, and an exchange before it, of its name,
// through which every routing key leads to it.
func (a admin) declare(kind string, args ...any) (name string) {
	a.t.Helper()
	name = testbroker.Name()
	a.declareAs(name, kind, args...)
	return name
}

func (a admin) declareAs(name, kind string, args ...any) {
	a.t.Helper()
	table := amqp091.Table{"x-queue-type": kind}
	for i := 0; i < len(args); i += 2 {
		table[args[i].(string)] = args[i+1]
	}
	_, err := a.QueueDeclare(name, true, false, false, false, table)
	if err == nil {
		err = a.ExchangeDeclare(name, "topic", true, false, false, false, nil)
	}
	if err == nil {
		err = a.QueueBind(name, "#", name, false, nil)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_, _ = a.QueueDelete(name, false, false, false)
		_ = a.ExchangeDelete(name, false, false)
	})
}

// publish publishes messages through the queue's exchange, by their keys.
func (a admin) publish(queue string, messages ...subscribe.Message) {
	a.t.Helper()
	if err := a.tryPublish(subscribetest.Patience, queue, messages...); err != nil {
		a.t.Fatal(err)
	}
}

// tryPublish fails unless the queue has taken all messages in that time. The broker confirms what no queue takes as
// well, after it has returned it.
func (a admin) tryPublish(within time.Duration, queue string, messages ...subscribe.Message) error {
	var all []*amqp091.DeferredConfirmation
	for _, m := range messages {
		p := amqp091.Publishing{
			ContentType: m.Type, DeliveryMode: amqp091.Persistent, MessageId: testbroker.Name(), Timestamp: time.Now(),
			Headers: amqp091.Table{}, Body: m.Body,
		}
		for name, value := range m.Headers {
			p.Headers[name] = value
		}
		confirmed, err := a.PublishWithDeferredConfirm(queue, string(m.Key), true, false, p)
		if err != nil {
			return err
		}
		all = append(all, confirmed)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), within)
	defer cancel()
	for _, confirmed := range all {
		taken, err := confirmed.WaitContext(ctx)
		if err != nil {
			return fmt.Errorf("the broker has not confirmed what was published: %w", err)
		}
		if !taken {
			return errors.New("the broker has not taken what was published")
		}
	}
	select {
	case r := <-a.returned:
		return fmt.Errorf("the broker returned %q: %s", r.Body, r.ReplyText)
	default:
		return nil
	}
}

// untilTaken publishes one message until the queue takes it, and returns the channel that did it. A node that has just
// started has no route to a stream. While the stream starts, a message may be kept and its channel never learns of it.
func (a admin) untilTaken(addr, queue, body string) admin {
	a.t.Helper()
	subscribetest.Eventually(a.t, "that "+queue+" takes a message", func() bool {
		err := a.tryPublish(3*time.Second, queue, subscribe.Message{Body: []byte(body)})
		if err != nil {
			a.t.Log(err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			a = dialBroker(a.t, addr)
		}
		return err == nil
	})
	return a
}

// bodies publishes messages of these bodies.
func (a admin) bodies(queue string, bodies ...string) {
	a.t.Helper()
	for _, body := range bodies {
		a.publish(queue, subscribe.Message{Body: []byte(body)})
	}
}

// read waits for n messages of a queue and takes them.
func (a admin) read(queue string, n int) (read []amqp091.Delivery) {
	a.t.Helper()
	for len(read) < n {
		subscribetest.Eventually(a.t, fmt.Sprintf("%d of %d messages in %s", len(read)+1, n, queue), func() bool {
			d, ok, err := a.Get(queue, true)
			if err != nil {
				a.t.Fatal(err)
			}
			if ok {
				read = append(read, d)
			}
			return ok
		})
	}
	return read
}

// publishPlain publishes a message without properties through the default exchange.
func publishPlain(t *testing.T, a admin, queue string) {
	t.Helper()
	d, err := a.PublishWithDeferredConfirm("", queue, true, false, amqp091.Publishing{Body: []byte("plain")})
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := d.WaitContext(subscribetest.Context(t)); err != nil || !taken {
		t.Fatal("the broker has not taken what was published", err)
	}
}
