package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/variables"
)

// deadLetters produces dead letters. It may be used concurrently.
type deadLetters struct {
	client *kgo.Client
	there  sync.Map // of topics that exist
}

// DeadLetter produces the message to another topic with its key and headers, and waits for all replicas in sync.
func (s *subscription) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	err := s.deadLetters.send(ctx, record(to, m, why))
	if err != nil && ctx.Err() == nil {
		return s.explain(fmt.Errorf("dead letter of %s to topic %s: %w", m.ID, to, err))
	}
	return err
}

func (l *deadLetters) send(ctx context.Context, r *kgo.Record) error {
	if !isTopic(r.Topic) {
		return fmt.Errorf("the topic's name is %q, must be %s", variables.Clipped(r.Topic), topicMust)
	}
	if _, ok := l.there.Load(r.Topic); !ok {
		switch _, err := describeTopic(ctx, l.client, r.Topic); {
		case errors.Is(err, errNoTopic):
			return fmt.Errorf("topic %s does not exist: create it", r.Topic)
		case err != nil:
			return err
		}
		l.there.Store(r.Topic, true)
	}
	err := l.produce(ctx, r)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		l.there.Delete(r.Topic)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: raise max.message.bytes of topic %s", err, r.Topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%w: let the user of kafka.sasl write to topic %s", err, r.Topic)
	}
	return err
}

// produce waits for the answer until ctx ends. The client cannot take back what it has sent: the letter may come all
// the same, and come again.
func (l *deadLetters) produce(ctx context.Context, r *kgo.Record) error {
	produced := make(chan error, 1)
	l.client.Produce(ctx, r, func(_ *kgo.Record, err error) { produced <- err })
	select {
	case err := <-produced:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// record is the message with why it is dead. Its own headers go first, in order of names.
func record(to string, m subscribe.Message, why subscribe.Why) *kgo.Record {
	r := &kgo.Record{Topic: to, Key: m.Key, Value: m.Body}
	add := func(headers map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(headers[name])})
		}
	}
	if m.Type != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: contentType, Value: []byte(m.Type)})
	}
	added := why.Headers()
	own := maps.Clone(m.Headers)
	maps.DeleteFunc(own, func(name, _ string) bool { _, again := added[name]; return again })
	add(own)
	add(added)
	return r
}
