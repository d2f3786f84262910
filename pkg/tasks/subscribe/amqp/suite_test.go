//go:build unix

package amqp_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/amqp"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

// topic is a queue of a kind behind a link.
func topic(t *testing.T, kind string) subscribetest.Topic {
	t.Helper()
	broker := testbroker.Shared(t, testbroker.KindRabbitMQ)
	link := testbroker.Link(t, broker.Addr)
	a := connect(t, broker.Addr)
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
