package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

// bench is a broker in memory, or a real one, and a client for what tests do to it.
type bench struct {
	*sourcetest.Task

	addr   string
	client *kgo.Client
	admin  *kadm.Client
}

func fake(t *testing.T, opts ...kfake.Opt) *bench {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return benchOf(t, cluster.ListenAddrs()[0])
}

func benchOf(t *testing.T, addr string, opts ...kgo.Opt) *bench {
	t.Helper()
	client, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(addr), kgo.MetadataMinAge(oldest), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &bench{sourcetest.Named(t, "g", "n"), addr, client, kadm.NewClient(client)}
}

func (b *bench) ctx() context.Context { b.T.Helper(); return sourcetest.Context(b.T) }

func (b *bench) create(topic string, partitions int32) {
	b.T.Helper()
	if _, err := b.admin.CreateTopic(b.ctx(), partitions, 1, nil, topic); err != nil {
		b.T.Fatal(err)
	}
	// A broker says that a topic is made before it serves it, and before it coordinates its first group.
	sourcetest.Eventually(b.T, "the topic "+topic, func() bool { return b.served(topic, int(partitions)) })
	sourcetest.Eventually(b.T, "a coordinator", func() bool {
		_, err := b.admin.FetchOffsets(b.ctx(), "any")
		return err == nil || errors.Is(err, kerr.GroupIDNotFound)
	})
}

// served says whether all partitions of a topic answer.
func (b *bench) served(topic string, partitions int) bool {
	offsets, err := b.admin.ListEndOffsets(b.ctx(), topic)
	return err == nil && offsets.Error() == nil && len(offsets[topic]) == partitions
}

// publish publishes values to a partition.
func (b *bench) publish(topic string, partition int32, values ...string) {
	b.T.Helper()
	for _, value := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
}

// committed is what a group has committed for a partition; -1: nothing.
func (b *bench) committed(group, topic string, partition int32) (offset int64, metadata string) {
	b.T.Helper()
	all, err := b.admin.FetchOffsets(b.ctx(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		b.T.Fatal(err)
	}
	o, ok := all.Lookup(topic, partition)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

func (b *bench) commit(group, topic string, partition int32, offset int64, metadata string) {
	b.T.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := b.admin.CommitAllOffsets(b.ctx(), group, os); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) source(topic string, change func(s *Source)) Source {
	s := Source{Brokers: []string{b.addr}, TopicName: topic, refresh: 200 * time.Millisecond}
	if change != nil {
		change(&s)
	}
	return s
}
