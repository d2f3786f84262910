//go:build unix

package mqtt_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

// topic is a topic with a quality of service behind a link.
func topic(t *testing.T, qos int) subscribetest.Topic {
	t.Helper()
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	link := testbroker.Link(t, broker.Addr)
	name, letters := testbroker.Name(), testbroker.Name()
	sender, reader := connect(t, broker.Addr), connect(t, broker.Addr)
	reader.listen(letters)
	source := mqtt.Source{Servers: []string{"mqtt://" + link.Addr}, Filter: name, QoS: qos}
	return subscribetest.Topic{
		Source:  func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, m ...subscribe.Message) { t.Helper(); sender.publish(name, byte(max(qos, 1)), m...) },
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
