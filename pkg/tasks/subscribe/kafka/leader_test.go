//go:build unix

package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

// A broker of two dies, and with it the leader of one partition. The others go on, and it is taken up with its broker.
func TestPartitionWithoutALeaderOfRealBrokers(t *testing.T) {
	first := testbroker.Kafka(t)
	b := benchOf(t, first.Addr)
	b.create("before", 1) // so that positions are kept by the first
	second := testbroker.SecondKafka(t, first)
	b.createOn("orders", 1, 2, 1)
	source := b.source("orders", nil)
	o := b.Open(source, 1)
	b.publish("orders", 0, "a")
	b.publish("orders", 1, "b")
	o.Ack(o.Take(2)...)
	o.Close()

	second.Kill()
	sourcetest.Eventually(t, "it is noticed", func() bool {
		topics, err := b.admin.ListTopics(b.ctx(), "orders")
		return err == nil && topics["orders"].Partitions[1].Leader < 0
	})
	o = b.Open(source, 2)
	o.Troubles.Want(t, "partition 1: LEADER_NOT_AVAILABLE")
	_, err := o.Sub.(subscribe.Lagging).Lag(b.ctx())
	sourcetest.WantError(t, err, "partition 1: LEADER_NOT_AVAILABLE")
	b.publish("orders", 0, "c")
	b.publish("orders", 2, "d")
	o.Ack(o.Take(2)...)
	second.Start()
	b.publish("orders", 1, "e")
	o.Ack(o.Expect("e")...)
	sourcetest.Eventually(t, "nothing is wrong", func() bool { return lastTrouble(o) == "<nil>" })
}

// createOn creates a topic with a partition on each of these brokers.
func (b *bench) createOn(topic string, brokers ...int32) {
	b.T.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, -1, -1
	for p, broker := range brokers {
		on := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		on.Partition, on.Replicas = int32(p), []int32{broker}
		one.ReplicaAssignment = append(one.ReplicaAssignment, on)
	}
	request.Topics = append(request.Topics, one)
	sourcetest.Eventually(b.T, "the topic "+topic, func() bool {
		_, err := request.RequestWith(b.ctx(), b.client)
		return err == nil && b.served(topic, len(brokers))
	})
}
