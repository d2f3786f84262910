package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

const patience = 30 * time.Second

// bench is a broker in memory, or a real one, and a client for what tests do to it.
type bench struct {
	t      *testing.T
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
	return &bench{t, addr, client, kadm.NewClient(client)}
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) create(topic string, partitions int32) {
	b.t.Helper()
	if _, err := b.admin.CreateTopic(b.ctx(), partitions, 1, nil, topic); err != nil {
		b.t.Fatal(err)
	}
	// A broker says that a topic is made before it serves it, and before it coordinates its first group.
	eventually(b.t, "the topic "+topic, func() bool {
		offsets, err := b.admin.ListEndOffsets(b.ctx(), topic)
		return err == nil && offsets.Error() == nil && len(offsets[topic]) == int(partitions)
	})
	eventually(b.t, "a coordinator", func() bool {
		_, err := b.admin.FetchOffsets(b.ctx(), "any")
		return err == nil || errors.Is(err, kerr.GroupIDNotFound)
	})
}

// publish publishes values to a partition.
func (b *bench) publish(topic string, partition int32, values ...string) {
	b.t.Helper()
	for _, value := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// committed is what a group has committed for a partition; -1: nothing.
func (b *bench) committed(group, topic string, partition int32) (offset int64, metadata string) {
	b.t.Helper()
	all, err := b.admin.FetchOffsets(b.ctx(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		b.t.Fatal(err)
	}
	o, ok := all.Lookup(topic, partition)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

func (b *bench) commit(group, topic string, partition int32, offset int64, metadata string) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := b.admin.CommitAllOffsets(b.ctx(), group, os); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) source(topic string, change func(s *Source)) Source {
	s := Source{Brokers: []string{b.addr}, TopicName: topic, refresh: 200 * time.Millisecond}
	if change != nil {
		change(&s)
	}
	return s
}

// opened is an open subscription of a test.
type opened struct {
	*testing.T
	subscribe.Subscription
	mu       sync.Mutex
	troubles []string
}

func (b *bench) session(o *opened, token int64) subscribe.Session {
	s := session(nil)
	s.Token, s.Log, s.InFlight = token, testr.New(b.t), 100
	s.Trouble = func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.troubles = append(o.troubles, fmt.Sprint(err))
	}
	return s
}

func (o *opened) said(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, said := range o.troubles {
		if strings.Contains(said, text) {
			return true
		}
	}
	return false
}

func (b *bench) tryOpen(s Source, token int64) (*opened, error) {
	o := &opened{T: b.t}
	sub, err := s.Open(b.ctx(), b.session(o, token))
	o.Subscription = sub
	if err == nil {
		b.t.Cleanup(o.close)
	}
	return o, err
}

func (b *bench) open(s Source, token int64) *opened {
	b.t.Helper()
	o, err := b.tryOpen(s, token)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func (o *opened) close() {
	if o.Subscription != nil {
		_ = o.Close(context.Background())
		o.Subscription = nil
	}
}

// receive waits for n messages.
func (o *opened) receive(n int) []subscribe.Message {
	o.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []subscribe.Message
	for len(all) < n {
		got, err := o.Receive(ctx, n-len(all))
		if err != nil {
			o.Fatalf("after %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// values waits for messages of one partition, in order.
func (o *opened) values(want ...string) []subscribe.Message {
	o.Helper()
	got := o.receive(len(want))
	for i, m := range got {
		if string(m.Body) != want[i] {
			o.Fatalf("message %d is %s with %s, want %s", i, m.ID, m.Body, want[i])
		}
	}
	return got
}

func (o *opened) ack(messages ...subscribe.Message) {
	o.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := o.Ack(ctx, messages); err != nil {
		o.Fatal(err)
	}
}

// fails waits until Receive fails.
func (o *opened) fails() error {
	o.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if _, err := o.Receive(ctx, 10); err != nil {
			if ctx.Err() != nil {
				o.Fatal("Receive did not fail")
			}
			return err
		}
	}
}

func (o *opened) lag() subscribe.Lag {
	o.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lag, err := o.Subscription.(subscribe.Lagging).Lag(ctx)
	if err != nil {
		o.Fatal(err)
	}
	return lag
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// store is a checkpoint without a fence.
type store struct{ value []byte }

func (s *store) Value(context.Context) ([]byte, error) { return s.value, nil }

func (s *store) SetValue(_ context.Context, value []byte) error {
	s.value = value
	return nil
}
