//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaPublisher produces with idempotence, so that what the client repeats is one message.
type kafkaPublisher struct{ client *kgo.Client }

func connectKafka(ctx context.Context, addr string, topics []string, partitions int) (publisher, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		return nil, err
	}
	made, err := kadm.NewClient(client).CreateTopics(ctx, int32(max(1, partitions)), 1, nil, topics...)
	errs := []error{err}
	for _, topic := range made {
		errs = append(errs, topic.Err)
	}
	if err := errors.Join(errs...); err != nil {
		client.Close()
		return nil, err
	}
	return kafkaPublisher{client}, nil
}

func (p kafkaPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	record := &kgo.Record{Topic: to.topic, Partition: int32(to.partition), Value: body}
	if to.key != "" {
		record.Key = []byte(to.key)
	}
	return p.client.ProduceSync(ctx, record).FirstErr()
}

func (p kafkaPublisher) Close() { p.client.Close() }
