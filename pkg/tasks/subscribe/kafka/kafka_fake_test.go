package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

const group = "shardctl.g.n" // of the tests' task

func TestMessageHasWhatTheRecordHas(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	at := time.UnixMilli(1_700_000_000_123)
	r := &kgo.Record{
		Topic: "orders", Partition: 1, Key: []byte("k"), Value: []byte("\x00\xff"), Timestamp: at,
		Headers: []kgo.RecordHeader{{Key: "Content-Type", Value: []byte("application/json")}, {Key: "a", Value: []byte("1")}},
	}
	if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := b.open(b.source("orders", nil), 1).receive(1)[0]
	if m.ID != "orders/1/0" || m.Partition != "1" || string(m.Key) != "k" || string(m.Body) != "\x00\xff" ||
		m.Type != "application/json" || len(m.Headers) != 1 || m.Headers["a"] != "1" || !m.Time.Equal(at) || m.Again {
		t.Errorf("got %+v", m)
	}
}

func TestAckIsOneCommitWithItsAuthor(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b")
	b.publish("orders", 1, "c")
	o := b.open(b.source("orders", nil), 7)
	o.ack(o.receive(3)...)
	for p, want := range []int64{2, 1} {
		if offset, by := b.committed(group, "orders", int32(p)); offset != want || by != "shardctl g/n 7" {
			t.Errorf("partition %d: committed %d by %q", p, offset, by)
		}
	}
	o.close()
	b.publish("orders", 0, "d")
	b.open(b.source("orders", nil), 8).values("d")
}

func TestTopicThatDoesNotExist(t *testing.T) {
	b := fake(t)
	_, err := b.tryOpen(b.source("orders", nil), 1)
	want := "broker " + b.addr + ", topic orders: the topic does not exist: create it, the subscription waits for it"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if topics, err := b.admin.ListTopics(b.ctx()); err != nil || topics.Has("orders") {
		t.Errorf("it was created, or %v", err)
	}
}

func TestPartitionThatDoesNotExist(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	_, err := b.tryOpen(b.source("orders", func(s *Source) { s.Partitions = []int32{1, 2} }), 1)
	if err == nil || !strings.Contains(err.Error(), "there is no partition 2, the topic has 2: add partitions") {
		t.Errorf("got %v", err)
	}
}

func TestSomePartitions(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	b.publish("orders", 0, "no")
	b.publish("orders", 2, "yes")
	o := b.open(b.source("orders", func(s *Source) { s.Partitions = []int32{2} }), 1)
	o.ack(o.values("yes")...)
	if offset, _ := b.committed(group, "orders", 0); offset != -1 {
		t.Errorf("committed %d for another partition", offset)
	}
}

func TestStart(t *testing.T) {
	for start, want := range map[string]string{
		"": "abcd", Earliest: "abcd", Latest: "d", "1970-01-01T02:00:00Z": "bcd", "1970-01-01T02:30:00Z": "cd",
		"1970-01-02T00:00:00+01:00": "d",
	} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			b := fake(t)
			b.create("orders", 1)
			for i, value := range []string{"a", "b", "c"} {
				r := &kgo.Record{Topic: "orders", Value: []byte(value), Timestamp: time.UnixMilli(int64(i+1) * 3_600_000)}
				if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			s := b.source("orders", func(s *Source) { s.Start = start })
			b.open(s, 1).close() // it ends before its first message
			b.publish("orders", 0, "d")
			b.open(s, 2).values(strings.Split(want, "")...)
		})
	}
}

func TestPositionIsKeptBeforeTheFirstMessage(t *testing.T) {
	for name, offsets := range map[string]string{"broker": Broker, "store": Store} {
		t.Run(name, func(t *testing.T) {
			b := fake(t)
			b.create("orders", 2)
			b.publish("orders", 0, "old")
			kept := &store{}
			open := func(token int64) *opened {
				o := &opened{T: t}
				session := b.session(o, token)
				session.Checkpoint = kept
				sub, err := b.source("orders", func(s *Source) { s.Start, s.Offsets = Latest, offsets }).Open(b.ctx(), session)
				if err != nil {
					t.Fatal(err)
				}
				o.Subscription = sub
				t.Cleanup(o.close)
				return o
			}
			open(1).close()
			b.publish("orders", 0, "new")
			open(2).values("new")
			if offset, _ := b.committed(group, "orders", 0); (offset == -1) != (offsets == Store) {
				t.Errorf("committed %d", offset)
			}
		})
	}
}

func TestAddedPartitionsAreTakenUp(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	s := b.source("orders", func(s *Source) { s.Start = Latest })
	o := b.open(s, 1)
	if _, err := b.admin.UpdatePartitions(b.ctx(), 3, "orders"); err != nil {
		t.Fatal(err)
	}
	// These are there before the subscription knows of the partitions: it begins at their beginning.
	b.publish("orders", 2, "a", "b")
	m := o.receive(2)
	o.ack(m[0])
	if m[0].ID != "orders/2/0" {
		t.Errorf("first came %s", m[0].ID)
	}
	o.close()
	b.publish("orders", 1, "c")
	again := b.open(s, 2).receive(2)
	got := map[string]bool{again[0].ID: true, again[1].ID: true}
	if !got["orders/2/1"] || !got["orders/1/0"] {
		t.Errorf("the next owner received %v", got)
	}
}

func TestTopicThatIsAnotherEndsTheSubscription(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	o := b.open(b.source("orders", nil), 1)
	if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
		t.Fatal(err)
	}
	b.create("orders", 2)
	err := o.fails()
	if !strings.Contains(err.Error(), "deleted") || !strings.Contains(err.Error(), "topic orders") {
		t.Errorf("got %v", err)
	}
}

func TestStoredPositionsOfAnotherTopic(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	b.publish("orders", 2, "old")
	kept := &store{}
	open := func(missing string) (*opened, error) {
		o := &opened{T: t}
		session := b.session(o, 1)
		session.Checkpoint = kept
		s := b.source("orders", func(s *Source) { s.Offsets, s.Missing, s.Start = Store, missing, Latest })
		sub, err := s.Open(b.ctx(), session)
		if err == nil {
			o.Subscription = sub
			t.Cleanup(o.close)
		}
		return o, err
	}
	o, err := open(Stop)
	if err != nil {
		t.Fatal(err)
	}
	o.close()
	if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
		t.Fatal(err)
	}
	b = benchOf(t, b.addr) // a client does not produce to another topic of the name
	b.create("orders", 2)
	b.publish("orders", 0, "new")
	_, err = open(Stop)
	if !errors.Is(err, subscribe.ErrStop) || !strings.Contains(err.Error(), "partition 2 (checkpoint)") ||
		!strings.Contains(err.Error(), "the topic has 2 partitions") {
		t.Errorf("got %v", err)
	}
	o, err = open(Earliest)
	if err != nil {
		t.Fatal(err)
	}
	o.values("new")
}

func TestDeadLetterToTopicThatDoesNotExist(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a")
	o := b.open(b.source("orders", nil), 1)
	m := o.values("a")[0]
	why := subscribe.Why{Identity: tasks.Identity{Group: "g", Name: "n"}, ID: m.ID, Err: errors.New("no")}
	err := o.DeadLetter(b.ctx(), "orders-dead", m, why)
	if err == nil || !strings.Contains(err.Error(), "topic orders-dead does not exist: create it") {
		t.Errorf("got %v", err)
	}
	b.create("orders-dead", 1)
	if err := o.DeadLetter(b.ctx(), "orders-dead", m, why); err != nil {
		t.Error(err)
	}
}

func TestWrongPassword(t *testing.T) {
	b := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "right"))
	_, err := b.tryOpen(b.source("orders", func(s *Source) { s.SASL = SASL{"PLAIN", "admin", "wrong-one", ""} }), 1)
	if err == nil || !strings.Contains(err.Error(), "kafka.sasl") ||
		!strings.Contains(err.Error(), b.addr) || strings.Contains(err.Error(), "wrong-one") {
		t.Errorf("got %v", err)
	}
	_, err = b.tryOpen(b.source("orders", func(s *Source) { s.SASL = SASL{"PLAIN", "admin", "right", ""} }), 1)
	if err == nil || !strings.Contains(err.Error(), "the topic does not exist") {
		t.Errorf("got %v", err)
	}
}

func TestBrokerThatIsNotThere(t *testing.T) {
	b := fake(t)
	b.addr = "127.0.0.1:1"
	began := time.Now()
	_, err := b.tryOpen(b.source("orders", nil), 1)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > openWithin {
		t.Errorf("that took %s", took)
	}
}

// rivalsSoon has each save look whether somebody else commits.
func (o *opened) rivalsSoon() { o.Subscription.(*subscription).kept.(*inBroker).checked = time.Time{} }

func TestTwoTasksInOneGroupAreTold(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a", "b", "c", "d", "e")
	o := b.open(b.source("orders", nil), 1)
	o.ack(o.values("a")...)
	b.commit(group, "orders", 0, 4, author{"g/other", 3}.String())
	o.rivalsSoon()
	o.ack(o.values("b")...)
	want := "somebody else commits to group " + group + " for topic orders: partition 0 is at offset 4, by task g/other"
	if !o.said(want) {
		t.Errorf("said %q", o.troubles)
	}
	o.rivalsSoon()
	o.ack(o.values("c")...)
	if last := o.troubles[len(o.troubles)-1]; last != "<nil>" {
		t.Errorf("said last %q", last)
	}
	b.commit(group, "orders", 0, 1, "")
	o.rivalsSoon()
	o.ack(o.values("d")...)
	if !o.said("by a client that is not shardctl") {
		t.Errorf("said %q", o.troubles)
	}
}

func TestStaleOwnerFindsTheNewOnesCommit(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a", "b", "c")
	stale := b.open(b.source("orders", nil), 1)
	got := stale.receive(3)
	stale.ack(got[0])
	o := b.open(b.source("orders", nil), 2)
	o.ack(o.values("b", "c")...)
	stale.rivalsSoon()
	err := stale.Ack(b.ctx(), got[1:2])
	if err == nil || !strings.Contains(err.Error(), "a newer owner of the task, token 2, has committed") {
		t.Errorf("got %v", err)
	}
	if offset, _ := b.committed(group, "orders", 0); offset != 3 {
		t.Errorf("committed is %d", offset)
	}
}

func TestLag(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b")
	b.publish("orders", 1, "c")
	o := b.open(b.source("orders", nil), 1)
	if lag := o.lag(); lag.Messages != 3 {
		t.Errorf("at first %+v", lag)
	}
	got := o.receive(3)
	if lag := o.lag(); lag.Messages != 3 || lag.Seconds < 0 || lag.Seconds > patience.Seconds() {
		t.Errorf("received %+v", lag)
	}
	o.ack(got...)
	if lag := o.lag(); lag != (subscribe.Lag{}) {
		t.Errorf("acknowledged %+v", lag)
	}
}
