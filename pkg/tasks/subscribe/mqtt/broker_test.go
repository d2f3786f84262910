//go:build unix

package mqtt_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// patience is for what should come soon.
const patience = 30 * time.Second

// admin is a test's own client of a broker.
type admin struct {
	*paho.Client
	t    *testing.T
	came chan *paho.Publish
}

func connect(t *testing.T, addr string) admin {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan *paho.Publish, 1000)
	client := paho.NewClient(paho.ClientConfig{
		Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			came <- p.Packet
			return true, nil
		}},
	})
	if _, err := client.Connect(t.Context(), &paho.Connect{ClientID: testbroker.Name(), CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
	return admin{client, t, came}
}

// listen subscribes to a topic for read.
func (a admin) listen(topic string) {
	a.t.Helper()
	if _, err := a.Subscribe(a.t.Context(), &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}},
	}); err != nil {
		a.t.Fatal(err)
	}
}

// read waits for n messages of what it listens to.
func (a admin) read(n int) (read []*paho.Publish) {
	a.t.Helper()
	for len(read) < n {
		select {
		case p := <-a.came:
			read = append(read, p)
		case <-time.After(patience):
			a.t.Fatalf("%d of %d messages", len(read), n)
		}
	}
	return read
}

// publish publishes messages with a quality of service.
func (a admin) publish(topic string, qos byte, messages ...subscribe.Message) {
	a.t.Helper()
	for _, m := range messages {
		p := &paho.Publish{Topic: topic, QoS: qos, Payload: m.Body, Properties: &paho.PublishProperties{ContentType: m.Type}}
		for name, value := range m.Headers {
			p.Properties.User.Add(name, value)
		}
		if _, err := a.Publish(context.WithoutCancel(a.t.Context()), p); err != nil {
			a.t.Fatal(err)
		}
	}
}

// bodies publishes messages of these bodies.
func (a admin) bodies(topic string, bodies ...string) {
	a.t.Helper()
	for _, body := range bodies {
		a.publish(topic, 1, subscribe.Message{Body: []byte(body)})
	}
}

func session(t *testing.T) subscribe.Session {
	t.Helper()
	return subscribetest.NewSession(t, subscribetest.NewIdentity(), 1, subscribetest.NewStore(nil))
}

// tryOpen opens a source, and closes it with the test unless the test has.
func tryOpen(t *testing.T, source mqtt.Source, s subscribe.Session) (subscribe.Subscription, error) {
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

func open(t *testing.T, source mqtt.Source, s subscribe.Session) subscribe.Subscription {
	t.Helper()
	sub, err := tryOpen(t, source, s)
	if err != nil {
		t.Fatal(err)
	}
	return sub
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

// receiveError waits for the end of a subscription that receives nothing.
func receiveError(t *testing.T, sub subscribe.Subscription) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := sub.Receive(ctx, 1)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the end of the connection was not noticed: %v", err)
	}
	return err
}

func wantTexts(t *testing.T, messages []subscribe.Message, want string) {
	t.Helper()
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	if got := strings.Join(all, " "); got != want {
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
