package kafka

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
)

// resumable is a topic of a cluster that a subscription has worked on up to offset 5, and that has one message more.
func resumable(t *testing.T) (*kfake.Cluster, *bench) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := benchOf(t, cluster.ListenAddrs()[0])
	b.create("orders", 1)
	b.publish("orders", 0, "a", "b", "c", "d", "e")
	o := b.Open(b.source("orders", nil), 1)
	o.Ack(o.Take(5)...)
	o.Close()
	b.publish("orders", 0, "f")
	return cluster, b
}

// once is closed at most once.
type once struct {
	sync.Once
	c chan struct{}
}

func newOnce() *once         { return &once{c: make(chan struct{})} }
func (o *once) happens()     { o.Do(func() { close(o.c) }) }
func (o *once) within() bool { return waits(o.c) }

func waits(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(sourcetest.Patience):
		return false
	}
}

// The first messages are asked for before the broker has said that the log is the same one. The connection for that is
// made while the positions are read. Were either to wait for the other, this would not end.
func TestOpenAsksForWhatItNeedsAtOnce(t *testing.T) {
	cluster, b := resumable(t)
	connected, asked := newOnce(), newOnce()
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fetch, _ := req.(*kmsg.FetchRequest)
		if len(fetch.Topics) > 0 {
			asked.happens()
		} else {
			connected.happens()
		}
		return nil, nil, false
	})
	after := func(key kmsg.Key, what string, first *once) {
		cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.SleepControl(func() {
				if !first.within() {
					t.Errorf("%s does not go on beside %s", what, key.Name())
				}
			})
			return nil, nil, false
		})
	}
	after(kmsg.OffsetFetch, "the connection to the leader", connected)
	after(kmsg.OffsetForLeaderEpoch, "the first fetch", asked)
	b.Open(b.source("orders", nil), 2).Expect("f")
}

// A dead letter that the broker does not answer is given up with its context.
func TestDeadLetterEndsWithItsContext(t *testing.T) {
	cluster, b := resumable(t)
	b.create("dead", 1)
	o := b.Open(b.source("orders", nil), 2)
	m := o.Expect("f")[0]
	goOn := newOnce()
	t.Cleanup(goOn.happens)
	asked := make(chan struct{}, 100)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked <- struct{}{}
		cluster.SleepControl(func() { goOn.within() })
		return nil, nil, false
	})
	ctx, cancel := context.WithCancelCause(sourcetest.Context(t))
	over := errors.New("over")
	go func() {
		<-asked
		cancel(over)
	}()
	if err := o.Sub.DeadLetter(ctx, "dead", m, subscribe.Why{ID: m.ID, Err: errors.New("no")}); !errors.Is(err, over) {
		t.Errorf("%v, want that its context is over", err)
	}
}

// What was asked for is dropped when the broker then says that the log was truncated.
func TestTruncatedLogIsNotReadOnFromTheOldPosition(t *testing.T) {
	cluster, b := resumable(t)
	asked := newOnce()
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if fetch, _ := req.(*kmsg.FetchRequest); len(fetch.Topics) > 0 {
			asked.happens()
		}
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() {
			if !asked.within() {
				t.Error("nothing was asked for before")
			}
		})
		asking, _ := req.(*kmsg.OffsetForLeaderEpochRequest)
		answer, _ := asking.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = "orders"
		partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		partition.LeaderEpoch, partition.EndOffset = asking.Topics[0].Partitions[0].LeaderEpoch, 3
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	_ = b.Refused(b.source("orders", nil), 2) // the log does not hold the position
	o := b.Open(b.source("orders", func(s *Source) { s.Missing = Earliest }), 3)
	o.Ack(o.Expect("d e f")...)
	if offset, _ := b.committed(group, "orders", 0); offset != 6 {
		t.Errorf("committed %d, want 6", offset)
	}
}
