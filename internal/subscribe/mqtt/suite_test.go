//go:build unix

package mqtt_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/mqtt"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

// topic is a topic with a quality of service behind a link.
func topic(t *testing.T, qos int) subscribetest.Topic {
	t.Helper()
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	link := testbroker.Link(t, broker.Addr)
	name, letters := testbroker.Name(), testbroker.Name()
	sender, reader := dialBroker(t, broker.Addr), dialBroker(t, broker.Addr)
	reader.listen(letters)
	source := mqtt.Source{Servers: []string{"mqtt://" + link.Addr}, Filter: name, QoS: qos}
	return subscribetest.Topic{
		Source:  func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, m ...subscribe.Message) { t.Helper(); sender.publish(name, byte(max(qos, 1)), m...) },
		Flood:   func(t *testing.T, m ...subscribe.Message) { t.Helper(); sender.publish(name, 0, m...) },
		Letters: letters,
		ReadLetters: func(t *testing.T, n int) (read []subscribe.Message) {
			t.Helper()
			for _, p := range reader.read(n) {
				m := subscribe.Message{Body: p.Payload, Type: p.Properties.ContentType, Headers: map[string]string{}}
				for _, u := range p.Properties.User {
					m.Headers[u.Key] = u.Value
				}
				read = append(read, m)
			}
			return read
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{FromNow: true, NoKeys: true, NoLag: true, Forgets: qos == 0},
	}
}

func TestAtMostOnce(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, 0) })
}

func TestAtLeastOnce(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, 1) })
}

func TestExactlyOnce(t *testing.T) {
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic { t.Helper(); return topic(t, 2) })
}

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// admin is a test's own client of a broker.
type admin struct {
	*paho.Client
	t    *testing.T
	came chan *paho.Publish
}

func dialBroker(t *testing.T, addr string) admin {
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
	if _, err := a.Subscribe(subscribetest.Context(a.t), &paho.Subscribe{
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
		case <-time.After(subscribetest.Patience):
			a.t.Fatalf("%d of %d messages within %s", len(read), n, subscribetest.Patience)
		}
	}
	return read
}

// publish publishes messages with a quality of service.
func (a admin) publish(topic string, qos byte, messages ...subscribe.Message) {
	a.t.Helper()
	for _, m := range messages {
		p := &paho.Publish{
			Topic: topic, QoS: qos, Payload: m.Body,
			Properties: &paho.PublishProperties{ContentType: m.Type},
		}
		for name, value := range m.Headers {
			p.Properties.User.Add(name, value)
		}
		if _, err := a.Publish(subscribetest.Context(a.t), p); err != nil {
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
