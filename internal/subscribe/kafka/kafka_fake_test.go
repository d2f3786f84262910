package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
)

const group = "shardctl.g.n" // of the tests' task

func TestMessageHasWhatTheRecordHas(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	at := time.UnixMilli(1_700_000_000_123)
	r := &kgo.Record{
		Topic: "orders", Partition: 1, Key: []byte("k"), Value: []byte("\x00\xff"), Timestamp: at,
		Headers: []kgo.RecordHeader{
			{Key: "Content-Type", Value: []byte("application/json")},
			{Key: "a", Value: []byte("1")},
		},
	}
	if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := b.Open(b.source("orders", nil), 1).Take(1)[0]
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
	o := b.Open(b.source("orders", nil), 7)
	o.Ack(o.Take(3)...)
	for p, want := range []int64{2, 1} {
		if offset, by := b.committed(group, "orders", int32(p)); offset != want || by != "shardctl g/n 7" {
			t.Errorf("partition %d: committed %d by %q", p, offset, by)
		}
	}
	o.Close()
	b.publish("orders", 0, "d")
	b.Open(b.source("orders", nil), 8).Expect("d")
}

// A message is known again, and never taken for one of another topic of the name.
func TestMessagesOfTopicsOfOneName(t *testing.T) {
	seen := map[string]string{}
	first := func(b *bench, token int64) string {
		t.Helper()
		o := b.Open(b.source("orders", func(s *Source) { s.Missing = subscribe.Earliest }), token)
		defer o.Close()
		m := o.Expect("a")[0]
		if m.ID != "orders/0/0" {
			t.Errorf("the position is %s", m.ID)
		}
		return m.Unique()
	}
	for _, name := range []string{"one cluster", "another"} {
		b := fake(t)
		for i, made := range []string{"made", "made again"} {
			b.create("orders", 1)
			b.publish("orders", 0, "a")
			is := first(b, int64(2*i+1))
			if again := first(b, int64(2*i+2)); again != is {
				t.Errorf("%s, %s: it is %s, and then %s", name, made, is, again)
			}
			if other, ok := seen[is]; ok {
				t.Errorf("%s, %s: the message is %s, as in %s", name, made, is, other)
			}
			seen[is] = name + ", " + made
			if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
				t.Fatal(err)
			}
			kept := b.Task
			b = benchOf(t, b.addr) // a client does not produce to another topic of the name
			b.Task = kept
		}
	}
}

func TestTopicThatDoesNotExist(t *testing.T) {
	b := fake(t)
	err := b.Refused(b.source("orders", nil), 1)
	want := "broker " + b.addr + ", topic orders: the topic does not exist: create it, the subscription waits for it"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if topics, err := b.admin.ListTopics(b.ctx()); err != nil || topics.Has("orders") {
		t.Errorf("it was created, or %v", err)
	}
}

func TestPartitionThatDoesNotExist(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	err := b.Refused(b.source("orders", func(s *Source) { s.Partitions = []int32{1, 2} }), 1)
	subscribetest.WantError(t, err, "there is no partition 2, the topic has 2: add partitions")
}

func TestSomePartitions(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	b.publish("orders", 0, "no")
	b.publish("orders", 2, "yes")
	o := b.Open(b.source("orders", func(s *Source) { s.Partitions = []int32{2} }), 1)
	o.Ack(o.Expect("yes")...)
	if offset, _ := b.committed(group, "orders", 0); offset != -1 {
		t.Errorf("committed %d for another partition", offset)
	}
}

func TestStart(t *testing.T) {
	for start, want := range map[string]string{
		"": "a b c d", subscribe.Earliest: "a b c d", subscribe.Latest: "d", "1970-01-01T02:00:00Z": "b c d",
		"1970-01-01T02:30:00Z":      "c d",
		"1970-01-02T00:00:00+01:00": "d",
	} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			b := fake(t)
			b.create("orders", 1)
			for i, value := range []string{"a", "b", "c"} {
				r := &kgo.Record{
					Topic: "orders", Value: []byte(value),
					Timestamp: time.UnixMilli(int64(i+1) * 3_600_000),
				}
				if err := b.client.ProduceSync(b.ctx(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			s := b.source("orders", func(s *Source) { s.Start = start })
			b.Open(s, 1).Close() // it ends before its first message
			b.publish("orders", 0, "d")
			b.Open(s, 2).Expect(want)
		})
	}
}

func TestPositionIsKeptBeforeTheFirstMessage(t *testing.T) {
	for name, offsets := range map[string]string{"broker": subscribe.Broker, "store": subscribe.Store} {
		t.Run(name, func(t *testing.T) {
			b := fake(t)
			b.create("orders", 2)
			b.publish("orders", 0, "old")
			s := b.source("orders", func(s *Source) { s.Start, s.Offsets = subscribe.Latest, offsets })
			b.Open(s, 1).Close()
			b.publish("orders", 0, "new")
			b.Open(s, 2).Expect("new")
			if offset, _ := b.committed(group, "orders", 0); (offset == -1) != (offsets == subscribe.Store) {
				t.Errorf("committed %d", offset)
			}
		})
	}
}

func TestAddedPartitionsAreTakenUp(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	s := b.source("orders", func(s *Source) { s.Start = subscribe.Latest })
	o := b.Open(s, 1)
	if _, err := b.admin.UpdatePartitions(b.ctx(), 3, "orders"); err != nil {
		t.Fatal(err)
	}
	// These are there before the subscription knows of the partitions: it begins at their beginning.
	b.publish("orders", 2, "a", "b")
	m := o.Take(2)
	o.Ack(m[0])
	if m[0].ID != "orders/2/0" {
		t.Errorf("first came %s", m[0].ID)
	}
	o.Close()
	b.publish("orders", 1, "c")
	again := b.Open(s, 2).Take(2)
	got := map[string]bool{again[0].ID: true, again[1].ID: true}
	if !got["orders/2/1"] || !got["orders/1/0"] {
		t.Errorf("the next owner received %v", got)
	}
}

func TestTopicThatIsAnotherEndsTheSubscription(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	o := b.Open(b.source("orders", nil), 1)
	if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
		t.Fatal(err)
	}
	b.create("orders", 2)
	subscribetest.WantError(t, o.Fails(0), "deleted", "topic orders")
}

func TestStoredPositionsOfAnotherTopic(t *testing.T) {
	b := fake(t)
	b.create("orders", 3)
	b.publish("orders", 2, "old")
	source := func(missing string) Source {
		return b.source("orders", func(s *Source) {
			s.Offsets, s.Missing, s.Start = subscribe.Store, missing,
				subscribe.Latest
		})
	}
	b.Open(source(subscribe.Stop), 1).Close()
	b = b.again("orders", 2)
	b.publish("orders", 0, "new")
	subscribetest.WantStop(t, b.Refused(source(subscribe.Stop), 1), "partition 2 (checkpoint)",
		"the topic has 2 partitions")
	b.Open(source(subscribe.Earliest), 1).Expect("new")
}

// The position goes with its group, and with its topic. That is no new subscription, which would begin at start.
func TestPositionGone(t *testing.T) {
	type want struct{ broker, store string } // what comes; empty: the task stops
	for what, cases := range map[string]map[string]want{
		"the topic": {
			subscribe.Stop: {"", ""}, subscribe.Earliest: {"n0 n1 n2 n3 new", "n0 n1 n2 n3 new"},
			subscribe.Latest: {"new", "new"},
		},
		"the group": {
			subscribe.Stop: {"", "n0 n1 n2 n3 new"}, subscribe.Earliest: {"0 1 n0 n1 n2 n3 new", "n0 n1 n2 n3 new"},
			subscribe.Latest: {"new", "n0 n1 n2 n3 new"},
		},
	} {
		for missing, want := range cases {
			for offsets, want := range map[string]string{subscribe.Broker: want.broker, subscribe.Store: want.store} {
				t.Run(what+","+missing+","+offsets, func(t *testing.T) {
					b := fake(t)
					b.create("orders", 1)
					source := b.source("orders", func(s *Source) {
						s.Missing, s.Offsets, s.Start = missing,
							offsets, subscribe.Latest
					})
					o := b.Open(source, 1)
					b.publish("orders", 0, "0", "1")
					o.Ack(o.Expect("0 1")...)
					o.Close()
					if what == "the topic" {
						b = b.again("orders", 1)
					}
					if _, err := b.admin.DeleteGroup(b.ctx(), group); err != nil &&
						!errors.Is(err, kerr.GroupIDNotFound) {
						t.Fatal(err)
					}
					b.publish("orders", 0, "n0", "n1", "n2", "n3")
					if want == "" {
						for range 2 { // it does not go on by itself
							subscribetest.WantStop(t, b.Refused(source, 2), "lost", "set kafka.missing", "orders")
						}
						return
					}
					b.Log.Reset()
					o = b.Open(source, 2)
					if b.Log.Count("No position was kept") > 0 {
						t.Errorf("it says that there was no position: %q", b.Log.All())
					}
					b.publish("orders", 0, "new")
					o.Ack(o.Expect(want)...)
					o.Close()
					b.Log.Reset()
					b.Open(source, 3).Close() // it is said once
					b.Log.WantNone(t)
				})
			}
		}
	}
}

// again makes the topic again. A client does not produce to another topic of the name.
func (b *bench) again(topic string, partitions int32) *bench {
	b.T.Helper()
	if _, err := b.admin.DeleteTopic(b.ctx(), topic); err != nil {
		b.T.Fatal(err)
	}
	kept := b.Task
	b = benchOf(b.T, b.addr)
	b.Task = kept
	b.create(topic, partitions)
	return b
}

func TestDeadLetterToTopicThatDoesNotExist(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a")
	o := b.Open(b.source("orders", nil), 1)
	m := o.Expect("a")[0]
	why := subscribe.Why{Identity: tasks.Identity{Group: "g", Name: "n"}, ID: m.ID, Err: errors.New("no")}
	err := o.TryDeadLetter("orders-dead", m, why)
	subscribetest.WantError(t, err, "topic orders-dead does not exist: create it")
	b.create("orders-dead", 1)
	if err := o.TryDeadLetter("orders-dead", m, why); err != nil {
		t.Error(err)
	}
}

func TestWrongPassword(t *testing.T) {
	b := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "right"))
	as := func(password string) Source {
		return b.source("orders", func(s *Source) {
			s.SASL = SASL{"PLAIN", connect.Login{
				User:     "admin",
				Password: password,
			}}
		})
	}
	subscribetest.WantError(t, b.Refused(as("secret"), 1), "kafka.sasl", b.addr)
	subscribetest.WantError(t, b.Refused(as("right"), 1), "the topic does not exist")
}

func TestBrokerThatIsNotThere(t *testing.T) {
	suites.Need(t, suites.Processes, "the wall clock")
	b := fake(t)
	b.addr = "127.0.0.1:1"
	began := time.Now()
	subscribetest.WantError(t, b.Refused(b.source("orders", nil), 1), "127.0.0.1:1", "refused")
	if took := time.Since(began); took > openWithin {
		t.Errorf("that took %s", took)
	}
}

// rivalsSoon has each save look whether somebody else commits.
func rivalsSoon(o *subscribetest.Client) {
	o.Sub.(*subscription).kept.(*inBroker).checked = time.Time{}
}

// lastTrouble is what a subscription said last of itself.
func lastTrouble(o *subscribetest.Client) string {
	all := o.Troubles.All()
	return all[len(all)-1]
}

func TestTwoTasksInOneGroupAreTold(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a", "b", "c", "d", "e")
	o := b.Open(b.source("orders", nil), 1)
	o.Ack(o.Expect("a")...)
	b.commit(group, "orders", 0, 4, author{"g/other", 3}.String())
	rivalsSoon(o)
	o.Ack(o.Expect("b")...)
	want := "somebody else commits to group " + group + " for topic orders: partition 0 is at offset 4, by task g/other"
	o.Troubles.Want(t, want)
	rivalsSoon(o)
	o.Ack(o.Expect("c")...)
	if last := lastTrouble(o); last != "<nil>" {
		t.Errorf("said last %q", last)
	}
	b.commit(group, "orders", 0, 1, "")
	rivalsSoon(o)
	o.Ack(o.Expect("d")...)
	o.Troubles.Want(t, "by a client that is not shardctl")
}

func TestStaleOwnerFindsTheNewOnesCommit(t *testing.T) {
	b := fake(t)
	b.create("orders", 1)
	b.publish("orders", 0, "a", "b", "c")
	stale := b.Open(b.source("orders", nil), 1)
	got := stale.Take(3)
	stale.Ack(got[0])
	o := b.Open(b.source("orders", nil), 2)
	o.Ack(o.Expect("b c")...)
	rivalsSoon(stale)
	subscribetest.WantError(t, stale.TryAck(got[1]), "a newer owner of the task, token 2, has committed")
	if offset, _ := b.committed(group, "orders", 0); offset != 3 {
		t.Errorf("committed is %d", offset)
	}
}

func TestLag(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b")
	b.publish("orders", 1, "c")
	o := b.Open(b.source("orders", nil), 1)
	if lag := o.Lag(); lag.Messages != 3 {
		t.Errorf("at first %+v", lag)
	}
	got := o.Take(3)
	if lag := o.Lag(); lag.Messages != 3 || lag.Seconds < 0 || lag.Seconds > subscribetest.Patience.Seconds() {
		t.Errorf("received %+v", lag)
	}
	o.Ack(got...)
	if lag := o.Lag(); lag != (subscribe.Lag{}) {
		t.Errorf("acknowledged %+v", lag)
	}
}
