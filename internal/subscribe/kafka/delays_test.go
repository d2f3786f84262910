//go:build unix

package kafka

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/cloudevents"
	"github.com/shardctl/shardctl/internal/subscribe/jsonlines"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/taskrig"
	"github.com/shardctl/shardctl/test/testbroker"
)

// deliver runs a subscription of a topic until the test ends.
func deliver(t *testing.T, b *bench, topic string, r subscribe.Runner, change ...func(*supervisor.Config)) {
	t.Helper()
	r.Source = b.source(topic, named(topic, nil))
	r.Retry.Backoff = tasks.Backoff{Initial: 50 * time.Millisecond, Max: 500 * time.Millisecond}
	env, _ := taskrig.Env(t, change...)
	ctx, stop := context.WithCancelCause(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { r.Run(ctx, env) })
	t.Cleanup(func() { stop(elect.ErrReleased); runs.Wait() })
}

// refusing answers 500 to each request that holds the text. It counts the requests.
func refusing(t *testing.T, text string) (url string, refused *atomic.Int64) {
	t.Helper()
	refused = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(text)) {
			refused.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, refused
}

// isCommitted waits until so much of each partition is acknowledged.
func (b *bench) isCommitted(topic string, want ...int64) {
	b.T.Helper()
	began := time.Now()
	for p, offset := range want {
		subscribetest.Eventually(b.T, fmt.Sprintf("offset %d of partition %d", offset, p), func() bool {
			at, _ := b.committed(topic, topic, int32(p))
			return at == offset
		})
	}
	b.T.Logf("committed %v after %s", want, time.Since(began).Round(time.Millisecond))
}

func TestOneOfABatchIsRefused(t *testing.T) {
	b, topic := topicOf(t, 1)
	letters := testbroker.Name()
	b.create(letters, 1)
	b.publish(topic, 0, numbered(100, 140)...)
	b.publish(topic, 0, "poison")
	b.publish(topic, 0, numbered(140, 149)...)
	url, refused := refusing(t, "poison")
	deliver(t, b, topic, subscribe.Runner{
		Sink: cloudevents.Sink{Endpoint: endpoint.Endpoint{URL: url}, BatchSize: 50}, InFlight: 50,
		Retry: subscribe.Retry{Attempts: 3, DeadLetter: letters},
	})
	b.isCommitted(topic, 50)
	dead := readMessages(b, letters, 1)
	ends, err := b.admin.ListEndOffsets(b.ctx(), letters)
	if end, _ := ends.Lookup(letters, 0); err != nil || end.Offset != 1 || string(dead[0].Body) != "poison" {
		t.Errorf("%d dead letters, the first %q: %v", end.Offset, dead[0].Body, err)
	}
	t.Logf("%d requests refused, dead letter %q after %s attempts", refused.Load(), dead[0].Body,
		dead[0].Headers["Shardctl-Dead-Attempts"])
}

func TestPoisonHoldsUpNoOtherPartition(t *testing.T) {
	for _, inFlight := range []int{1, 8} {
		t.Run(fmt.Sprint(inFlight), func(t *testing.T) {
			b, topic := topicOf(t, 3)
			b.publish(topic, 0, "first", "poison")
			for p := range int32(3) {
				b.publish(topic, p, numbered(0, 30)...)
			}
			url, refused := refusing(t, "poison")
			deliver(t, b, topic,
				subscribe.Runner{Sink: cloudevents.Sink{Endpoint: endpoint.Endpoint{URL: url}}, InFlight: inFlight})
			b.isCommitted(topic, 1, 30, 30)
			before := refused.Load()
			b.publish(topic, 2, "more")
			b.isCommitted(topic, 1, 30, 31)
			t.Logf("the poison was refused %d times, and %d before that", refused.Load(), before)
		})
	}
}

type blockedLog chan struct{}

func (b blockedLog) Line(elect.Key, taskrun.Stream, string) { <-b }

func TestABlockedLogDelaysNoMessage(t *testing.T) {
	suites.Need(t, suites.Processes, "a real command")
	b, topic := topicOf(t, 1)
	b.publish(topic, 0, numbered(0, 50)...)
	const answer = `while read -r line; do echo "working on it"; id=${line#*\"id\":\"}; echo "${id%%\"*}"; done`
	blocked := make(blockedLog)
	unblock := sync.OnceFunc(func() { close(blocked) })
	t.Cleanup(unblock)
	deliver(t, b, topic, subscribe.Runner{
		Sink: jsonlines.Sink{Command: []string{"sh", "-c", answer}, Timeout: 5 * time.Second}, InFlight: 8,
	}, func(c *supervisor.Config) { c.Output = blocked })
	b.isCommitted(topic, 50)
	unblock() // before the log of the test ends
}

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
	subscribetest.Eventually(t, "no lag", func() bool { return o.Lag().Messages == 0 })
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
