//go:build linux

package brokers_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/test/testbroker"
)

// kind is one kind of source under test. A new kind is one entry in kinds, and its publisher.
type kind struct {
	name   string
	broker testbroker.Kind
	// source is the task's source in the configuration. ADDR is the broker's address; the topic is the task's name.
	source string
	// partitions are those of each topic; 0: topics have none.
	partitions int
	// keys are those of each partition, or of each topic. Order is kept for each key; 0: messages have none.
	keys int
	// lossy has messages lost that are published while no one is subscribed, or received by who then dies.
	lossy bool
	// orderly has the broker stopped by SIGTERM where it loses what it has confirmed in a kill.
	orderly bool
	// connect makes a publisher to a fresh broker with these topics, which it makes.
	connect func(ctx context.Context, addr string, topics []string, partitions int) (publisher, error)
}

// publisher publishes to the topics of a broker, and survives its restarts. Its methods may be called concurrently.
type publisher interface {
	// Publish returns nil once the broker has confirmed the message. It never makes it two.
	Publish(ctx context.Context, to lane, body []byte) error
	Close()
}

// lane is what messages are in order within.
type lane struct {
	topic     string
	partition int
	key       string // empty: none
}

// lanes is how many lanes a topic has.
func (k kind) lanes() int { return max(1, k.partitions) * max(1, k.keys) }

// lane is the n-th lane of a topic.
func (k kind) lane(topic string, n int) lane {
	l := lane{topic: topic, partition: n % max(1, k.partitions)}
	if k.keys > 0 {
		l.key = fmt.Sprintf("key-%d", n/max(1, k.partitions))
	}
	return l
}

var kinds = []kind{
	{
		name: "kafka", broker: testbroker.KindKafka, partitions: 2, connect: connectKafka,
		source: `kafka: {brokers: [ADDR], topic: $(SHARDCTL_TASK), start: earliest}`,
	},
	{
		// A server that is killed loses acknowledgements that it has confirmed.
		name: "nats", broker: testbroker.KindNATS, connect: connectNATS, orderly: true,
		source: `nats: {servers: [ADDR], stream: $(SHARDCTL_TASK)}`,
	},
	{
		name: "redis", broker: testbroker.KindRedis, connect: connectRedis,
		source: `redis: {url: "redis://ADDR/0", stream: $(SHARDCTL_TASK)}`,
	},
	{
		name: "amqp", broker: testbroker.KindRabbitMQ, connect: connectRabbitMQ("quorum"),
		source: `amqp: {url: "amqp://guest:guest@ADDR/", queue: $(SHARDCTL_TASK)}`,
	},
	{
		// A server that is killed loses what it took in its last second.
		name: "mqtt", broker: testbroker.KindMosquitto, connect: connectMQTT, orderly: true,
		source: `mqtt: {servers: ["mqtt://ADDR"], topic: $(SHARDCTL_TASK)}`,
	},
}

// kindOf is the kind of that name.
func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}
