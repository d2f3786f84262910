//go:build unix

package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

// transact publishes values in one transaction.
func transact(b *bench, topic string, end kgo.TransactionEndTry, values ...string) {
	b.T.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.addr), kgo.TransactionalID(testbroker.Name()), kgo.MetadataMinAge(oldest),
	)
	if err != nil {
		b.T.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		b.T.Fatal(err)
	}
	for _, value := range values {
		if err := client.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			b.T.Fatal(err)
		}
	}
	if err := client.EndTransaction(b.ctx(), end); err != nil {
		b.T.Fatal(err)
	}
}

func TestTransactions(t *testing.T) {
	b, topic := topicOf(t, 1)
	transact(b, topic, kgo.TryAbort, "aborted")
	transact(b, topic, kgo.TryCommit, "a", "b")
	transact(b, topic, kgo.TryAbort, "aborted", "too")
	o := b.Open(b.source(topic, named(topic, nil)), 1)
	o.Ack(o.Expect("a b")...)
	// The marks of transactions and what was aborted hold up neither the lag nor the position.
	ctx := b.ctx()
	go func() { _, _ = o.Sub.Receive(ctx, 1) }()
	sourcetest.Eventually(t, "no lag", func() bool { return o.Lag().Messages == 0 })
	transact(b, topic, kgo.TryCommit, "c")
	uncommitted := b.Open(b.source(topic, func(s *Source) { s.Group, s.Isolation = "all-"+topic, ReadUncommitted }), 1)
	uncommitted.Expect("aborted a b aborted too c")
}

func TestCompactedLog(t *testing.T) {
	b, topic := topicOf(t, 1)
	for i := range 20 {
		transact(b, topic, kgo.TryCommit, fmt.Sprint(i)) // each leaves a gap of one offset behind it
	}
	o := b.Open(b.source(topic, named(topic, nil)), 1)
	for i := range 20 {
		o.Ack(o.Expect(fmt.Sprint(i))...)
		if offset, _ := b.committed(topic, topic, 0); offset < int64(2*i+1) || offset > int64(2*i+2) {
			t.Fatalf("after message %d, at offset %d, committed is %d", i, 2*i, offset)
		}
	}
}

func TestLargeMessage(t *testing.T) {
	b, topic := topicOf(t, 1)
	large := strings.Repeat("x", 900_000)
	b.publish(topic, 0, "small", large, "small")
	o := b.Open(b.source(topic, named(topic, func(s *Source) { s.MaxBytes = 1000 })), 1)
	o.Ack(o.Expect("small " + large + " small")...)
}
