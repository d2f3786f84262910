//go:build unix

package kafka

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// TestConformance runs the suite of all sources on a real broker, through a link that breaks.
func TestConformance(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindKafka)
	link := broker.Link()
	subscribetest.Run(t, func(t *testing.T) subscribetest.Topic {
		t.Helper()
		b := benchOf(t, broker.Addr)
		topic, letters := testbroker.Name(), testbroker.Name()
		b.create(topic, 3)
		b.create(letters, 1)
		t.Cleanup(link.Unblock)
		source := func(offsets string) func(*testing.T) subscribe.Source {
			return func(*testing.T) subscribe.Source {
				return Source{Brokers: []string{link.Addr}, TopicName: topic, Group: topic, Offsets: offsets}
			}
		}
		return subscribetest.Topic{
			Source: source(subscribe.Broker), InStore: source(subscribe.Store),
			WhenMissing: func(_ *testing.T, missing string, inStore bool) subscribe.Source {
				offsets := subscribe.Broker
				if inStore {
					offsets = subscribe.Store
				}
				return Source{
					Brokers: []string{link.Addr}, TopicName: topic, Group: topic, Offsets: offsets, Missing: missing,
				}
			},
			MakeAgain: func(t *testing.T) { t.Helper(); b = b.again(topic, 3) },
			DropPosition: func(t *testing.T) {
				t.Helper()
				if _, err := b.admin.DeleteGroup(b.ctx(), topic); err != nil {
					t.Error(err)
				}
			},
			Publish: func(t *testing.T, messages ...subscribe.Message) { t.Helper(); publishMessages(b, topic, messages) },
			Letters: letters,
			ReadLetters: func(t *testing.T, n int) []subscribe.Message {
				t.Helper()
				return readMessages(b, letters, n)
			},
			Cut:     func(*testing.T) { link.Cut() },
			Block:   func(*testing.T) { link.Block() },
			Unblock: func(*testing.T) { link.Unblock() },
		}
	})
}

func publishMessages(b *bench, topic string, messages []subscribe.Message) {
	b.T.Helper()
	hash := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	for _, m := range messages {
		r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Body}
		r.Partition = int32(hash.Partition(r, 3))
		if m.Type != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: contentType, Value: []byte(m.Type)})
		}
		for name, value := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
}

// readMessages reads a topic from its beginning by a client of its own.
func readMessages(b *bench, topic string, n int) []subscribe.Message {
	b.T.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics(topic))
	if err != nil {
		b.T.Fatal(err)
	}
	defer client.Close()
	var all []subscribe.Message
	for len(all) < n {
		fetches := client.PollRecords(b.ctx(), n-len(all))
		if err := fetches.Err(); err != nil {
			b.T.Fatalf("after %d of %d messages of %s: %v", len(all), n, topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, messageOf(r)) })
	}
	return all
}

func TestTopicsOfARealBrokerAreListed(t *testing.T) {
	expectListed(t, benchOf(t, testbroker.Shared(t, testbroker.KindKafka).Addr), testbroker.Name()+"-")
}
