package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

// bench is a broker in memory, or a real one, and a client for what tests do to it.
type bench struct {
	*subscribetest.Task

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
	return &bench{subscribetest.Named(t, "g", "n"), addr, client, kadm.NewClient(client)}
}

func (b *bench) ctx() context.Context { b.T.Helper(); return subscribetest.Context(b.T) }

func (b *bench) create(topic string, partitions int32) {
	b.T.Helper()
	if _, err := b.admin.CreateTopic(b.ctx(), partitions, 1, nil, topic); err != nil {
		b.T.Fatal(err)
	}
	// A broker says that a topic is made before it serves it, and before it coordinates its first group.
	subscribetest.Eventually(b.T, "the topic "+topic, func() bool { return b.served(topic, int(partitions)) })
	subscribetest.Eventually(b.T, "a coordinator", func() bool {
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

// What comes of a partition that is left out is kept, up to a limit, and comes first later. Nothing is lost beyond it.
func TestWhatIsLeftOutComesLaterInOrder(t *testing.T) {
	for name, maxBytes := range map[string]int{"kept": 0, "fetched again": 3} {
		t.Run(name, func(t *testing.T) {
			b := fake(t)
			b.create("in", 2)
			o := b.Open(b.source("in", func(s *Source) { s.MaxBytes = maxBytes }), 1)
			o.Sub.(subscribe.Pausing).Pause([]string{"0"})
			var texts []string
			for i := range 20 {
				texts = append(texts, fmt.Sprint("m", i))
			}
			b.publish("in", 0, texts...)
			for _, text := range []string{"a", "b", "c"} {
				b.publish("in", 1, text)
				o.Ack(o.Expect(text)...)
			}
			o.Sub.(subscribe.Pausing).Pause(nil)
			o.Ack(o.Expect(strings.Join(texts, " "))...)
		})
	}
}

func TestPlaces(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Offset: 10, Epoch: 1}, 1: {Epoch: -1}})
	published := time.Unix(1000, 0)
	for _, offset := range []int64{10, 11, 15} { // 12 to 14 were compacted
		p.seen(ref{0, offset, 2}, published.Add(time.Duration(offset)*time.Second), true)
	}
	ends := map[int32]int64{0: 16, 1: 0}
	if behind, oldest := p.behind(ends); behind != 6 || !oldest.Equal(published.Add(10*time.Second)) {
		t.Errorf("behind %d since %s", behind, oldest)
	}
	if changed := p.unsaved(); len(changed) != 0 {
		t.Errorf("before an acknowledgement %v is to be saved", changed)
	}
	p.acknowledged([]ref{{0, 10, 2}, {0, 11, 2}})
	changed := p.unsaved()
	if len(changed) != 1 || changed[0] != (mark{Offset: 12, Epoch: 2}) {
		t.Errorf("to be saved: %v", changed)
	}
	p.wereSaved(changed)
	if changed := p.unsaved(); len(changed) != 0 {
		t.Errorf("saved, and again %v", changed)
	}
	p.acknowledged([]ref{{0, 15, 2}})
	if got := p.unsaved()[0]; got != (mark{Offset: 16, Epoch: 2}) {
		t.Errorf("after the last one: %v", got)
	}
	if behind, oldest := p.behind(ends); behind != 0 || !oldest.IsZero() {
		t.Errorf("behind %d since %s", behind, oldest)
	}
}

func TestPlacesGoOnPastWhatNobodyWaitsFor(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Epoch: -1}})
	now := time.Unix(1000, 0)
	p.seen(ref{0, 0, 1}, now, false)
	if behind, _ := p.behind(map[int32]int64{0: 1}); behind != 0 {
		t.Errorf("after the end of a transaction it is %d behind", behind)
	}
	p.seen(ref{0, 1, 1}, now, true)
	p.seen(ref{0, 4, 1}, now, false)
	p.seen(ref{0, 5, 1}, now, true)
	p.seen(ref{0, 6, 1}, now, false)
	for _, step := range []struct{ acknowledged, saved int64 }{{1, 2}, {5, 7}} {
		p.acknowledged([]ref{{0, step.acknowledged, 1}})
		if got := p.unsaved()[0]; got != (mark{Offset: step.saved, Epoch: 1}) {
			t.Errorf("after %d to be saved: %v", step.acknowledged, got)
		}
	}
}

func TestAnAcknowledgementTwiceMovesNothingBack(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Epoch: -1}})
	for offset := range int64(4) {
		p.seen(ref{0, offset, 0}, time.Unix(1000, 0), true)
	}
	p.acknowledged([]ref{{0, 2, 0}})
	p.acknowledged([]ref{{0, 1, 0}})
	if got := p.unsaved()[0].Offset; got != 3 {
		t.Errorf("to be saved: %d", got)
	}
}
