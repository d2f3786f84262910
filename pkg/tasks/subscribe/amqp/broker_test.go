//go:build unix

package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/amqp"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// patience is for what should come soon.
const patience = 30 * time.Second

// admin is a test's own channel to a broker.
type admin struct {
	*amqp091.Channel
	returned <-chan amqp091.Return // what no queue took
	t        *testing.T
}

func connect(t *testing.T, addr string) admin {
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
	if err := a.tryPublish(queue, messages...); err != nil {
		a.t.Fatal(err)
	}
}

// tryPublish fails unless the queue has taken all messages. The broker confirms what no queue takes as well, after it
// has returned it.
func (a admin) tryPublish(queue string, messages ...subscribe.Message) error {
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
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
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

// untilTaken publishes one message until the queue takes it. A node that has just started has no route to a stream.
func (a admin) untilTaken(queue, body string) {
	a.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) { // the next try
		err := a.tryPublish(queue, subscribe.Message{Body: []byte(body)})
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			a.t.Fatalf("still: %v", err)
		}
	}
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
	for began := time.Now(); len(read) < n; {
		d, ok, err := a.Get(queue, true)
		switch {
		case err != nil:
			a.t.Fatal(err)
		case ok:
			read = append(read, d)
		case time.Since(began) > patience:
			a.t.Fatalf("%d of %d messages in %s", len(read), n, queue)
		default:
			time.Sleep(10 * time.Millisecond) // the next question
		}
	}
	return read
}

// session is that of a task of a test.
func session(t *testing.T, store *subscribetest.Store, token int64) subscribe.Session {
	t.Helper()
	return subscribetest.NewSession(t, subscribetest.NewIdentity(), token, store)
}

// open opens a source that works.
func open(t *testing.T, source amqp.Source, s subscribe.Session) subscribe.Subscription {
	t.Helper()
	sub, err := tryOpen(t, source, s)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// tryOpen opens a source, and closes it with the test unless the test has.
func tryOpen(t *testing.T, source amqp.Source, s subscribe.Session) (subscribe.Subscription, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub, err := source.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = sub.Close(ctx) // some tests have, some brokers are gone
	})
	return sub, nil
}

// reopen opens a source again after its connection has ended, as runs do.
func reopen(t *testing.T, source amqp.Source, s subscribe.Session) subscribe.Subscription {
	t.Helper()
	for began := time.Now(); ; {
		sub, err := tryOpen(t, source, s)
		if err == nil {
			return sub
		}
		if time.Since(began) > patience {
			t.Fatalf("still: %v", err)
		}
		time.Sleep(100 * time.Millisecond) // the next try
	}
}

// take receives n messages.
func take(t *testing.T, sub subscribe.Subscription, n int) (taken []subscribe.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(taken) < n {
		messages, err := sub.Receive(ctx, n-len(taken))
		if err != nil {
			t.Fatalf("after %d of %d messages: %v", len(taken), n, err)
		}
		taken = append(taken, messages...)
	}
	return taken
}

func ack(t *testing.T, sub subscribe.Subscription, messages ...subscribe.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := sub.Ack(ctx, messages); err != nil {
		t.Fatal(err)
	}
}

func closeSub(t *testing.T, sub subscribe.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := sub.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// texts are the bodies of messages.
func texts(messages []subscribe.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	return strings.Join(all, " ")
}

func wantTexts(t *testing.T, messages []subscribe.Message, want string) {
	t.Helper()
	if got := texts(messages); got != want {
		t.Fatalf("received %q, want %q", got, want)
	}
}

// wantError checks that an error says all of these, and nothing secret.
func wantError(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", says)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %q, and does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// publishPlain publishes a message without properties through the default exchange.
func publishPlain(t *testing.T, a admin, queue string) {
	t.Helper()
	d, err := a.PublishWithDeferredConfirm("", queue, true, false, amqp091.Publishing{Body: []byte("plain")})
	if err != nil || !d.Wait() {
		t.Fatal("the broker has not taken what was published", err)
	}
}
