//go:build unix

package kafka

import (
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

// topicOf makes a topic of the shared broker.
func topicOf(t *testing.T, partitions int32) (*bench, string) {
	t.Helper()
	broker := testbroker.Shared(t, testbroker.KindKafka)
	b, topic := benchOf(t, broker.Addr), testbroker.Name()
	b.create(topic, partitions)
	return b, topic
}

func numbered(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// named sets a group of its own, so that tests of one broker do not meet.
func named(group string, change func(s *Source)) func(s *Source) {
	return func(s *Source) {
		s.Group = group
		if change != nil {
			change(s)
		}
	}
}

// deleteBefore removes the messages before an offset, as retention does.
func (b *bench) deleteBefore(topic string, offset int64) {
	b.T.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset})
	deleted, err := b.admin.DeleteRecords(b.ctx(), os)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		b.T.Fatal(err)
	}
}

func TestBrokerRestart(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	broker := testbroker.Kafka(t)
	b := benchOf(t, broker.Addr)
	b.create("orders", 1)
	b.publish("orders", 0, "0", "1", "2")
	o := b.Open(b.source("orders", nil), 1)
	got := o.Expect("0 1")
	o.Ack(got[0])
	broker.Kill()
	ack := make(chan error, 1)
	go func() { ack <- o.TryAck(got[1:]...) }()
	subscribetest.Eventually(t, "that the broker is away", func() bool { return o.Troubles.Count("cannot connect") > 0 })
	broker.Start()
	if err := <-ack; err != nil {
		t.Fatalf("the acknowledgement did not wait for the broker: %v", err)
	}
	b.publish("orders", 0, "3")
	o.Ack(o.Expect("2 3")...)
	subscribetest.Eventually(t, "that the broker is back", func() bool { return lastTrouble(o) == "<nil>" })
	if offset, _ := b.committed(group, "orders", 0); offset != 4 {
		t.Errorf("committed is %d", offset)
	}
}

func TestBrokerHangs(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	broker := testbroker.Kafka(t)
	b := benchOf(t, broker.Addr)
	b.create("orders", 1)
	o := b.Open(b.source("orders", nil), 1)
	broker.Freeze()
	defer broker.Thaw()
	subscribetest.WantError(t, b.Refused(b.source("orders", nil), 1), broker.Addr)
	subscribetest.Eventually(t, "that the broker hangs", func() bool { return o.Troubles.Count("does not answer") > 0 })
	broker.Thaw()
	b.publish("orders", 0, "0")
	o.Ack(o.Expect("0")...)
}

func TestLostPosition(t *testing.T) {
	for missing, want := range map[string]string{
		subscribe.Stop: "", subscribe.Earliest: "5 6 7",
		subscribe.Latest: "new",
	} {
		t.Run(missing, func(t *testing.T) {
			b, topic := topicOf(t, 1)
			b.publish(topic, 0, numbered(0, 8)...)
			s := b.source(topic, named(topic, func(s *Source) { s.Missing = missing }))
			o := b.Open(s, 1)
			o.Ack(o.Expect("0 1 2")...)
			o.Close()
			b.deleteBefore(topic, 5)
			o = b.Open(s, 2)
			err := o.Fails(0)
			o.Close()
			if missing != subscribe.Stop {
				o = b.Open(s, 3)
				b.publish(topic, 0, "new")
				o.Expect(want)
				return
			}
			says := fmt.Sprintf("broker %s, topic %s: partition 0 (group %s): position 3 is lost: the messages before offset 5 "+
				"were deleted; the log holds offsets 5 to 7: set kafka.missing to earliest or latest", b.addr, topic,
				topic)
			if !errors.Is(err, subscribe.ErrStop) || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("got  %v\nwant %s…", err, says)
			}
		})
	}
}

func TestLogIsDeletedWhileItIsRead(t *testing.T) {
	b, topic := topicOf(t, 1)
	large := strings.Repeat("x", 50_000)
	for range 40 {
		b.publish(topic, 0, large)
	}
	// Little is fetched ahead, so that what is deleted is not here yet.
	s := b.source(topic, named(topic, func(s *Source) { s.MaxBytes = 1 }))
	o := b.Open(s, 1)
	o.Ack(o.Take(1)...)
	b.deleteBefore(topic, 39)
	subscribetest.WantStop(t, o.Fails(39), "position 1 is lost")
	o.Close()
	s.Missing = subscribe.Earliest
	o = b.Open(s, 2)
	subscribetest.WantError(t, o.Fails(0), "partition 0: the log does not hold the next message any more")
	o.Close()
	if got := b.Open(s, 3).Take(1); got[0].ID != topic+"/0/39" {
		t.Errorf("went on at %s", got[0].ID)
	}
}

func TestPositionBeyondTheLog(t *testing.T) {
	b, topic := topicOf(t, 1)
	b.publish(topic, 0, numbered(0, 3)...)
	b.commit(topic, topic, 0, 10, "")
	subscribetest.WantStop(t, b.Refused(b.source(topic, named(topic, nil)), 1), "truncated and ends at offset 3")
	o := b.Open(b.source(topic, named(topic, func(s *Source) { s.Missing = subscribe.Earliest })), 1)
	o.Expect("0 1 2")
}

func TestTopicMadeAgainWithFewerPartitions(t *testing.T) {
	b, topic := topicOf(t, 3)
	b.publish(topic, 2, "old")
	s := b.source(topic, named(topic, nil))
	o := b.Open(s, 1)
	o.Ack(o.Expect("old")...)
	if _, err := b.admin.DeleteTopic(b.ctx(), topic); err != nil {
		t.Fatal(err)
	}
	subscribetest.Eventually(t, "the topic is gone", func() bool {
		_, err := describeTopic(b.ctx(), b.client, topic)
		return errors.Is(err, errNoTopic)
	})
	subscribetest.WantError(t, o.Fails(0), "topic "+topic)
	o.Ack() // nothing
	o.Close()
	b = benchOf(t, b.addr)
	b.create(topic, 2)
	b.publish(topic, 1, "new")
	b.Open(s, 2).Expect("new")
}

func TestAcknowledgementOfATopicThatIsGone(t *testing.T) {
	b, topic := topicOf(t, 1)
	b.publish(topic, 0, "old")
	o := b.Open(b.source(topic, named(topic, nil)), 1)
	got := o.Expect("old")
	if _, err := b.admin.DeleteTopic(b.ctx(), topic); err != nil {
		t.Fatal(err)
	}
	b = benchOf(t, b.addr)
	subscribetest.Eventually(t, "it is made again", func() bool {
		_, err := b.admin.CreateTopic(b.ctx(), 1, 1, nil, topic)
		return err == nil
	})
	if err := o.TryAck(got...); err == nil {
		t.Error("the position of a topic that is gone was kept for its successor")
	}
	if offset, _ := b.committed(topic, topic, 0); offset > 0 {
		t.Errorf("committed is %d", offset)
	}
}

func TestGroupWithMembers(t *testing.T) {
	b, topic := topicOf(t, 1)
	b.publish(topic, 0, "a")
	member, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	if err := member.PollFetches(b.ctx()).Err(); err != nil {
		t.Fatal(err)
	}
	err = b.Refused(b.source(topic, named(topic, nil)), 1)
	subscribetest.WantError(t, err, "the group "+topic+" has members")
}

func TestDeadLetterThatIsTooLarge(t *testing.T) {
	b, topic := topicOf(t, 1)
	letters := testbroker.Name()
	limit := "1000"
	if _, err := b.admin.CreateTopic(b.ctx(), 1, 1, map[string]*string{"max.message.bytes": &limit},
		letters); err != nil {
		t.Fatal(err)
	}
	o := b.Open(b.source(topic, named(topic, nil)), 1)
	m := subscribe.Message{ID: topic + "/0/0", Body: make([]byte, 5000)}
	_, _ = rand.Read(m.Body) // what compresses well would fit
	err := o.TryDeadLetter(letters, m, subscribe.Why{Err: errors.New("no")})
	subscribetest.WantError(t, err, "raise max.message.bytes of topic "+letters)
}

// Wrong passwords are an error at once, and a right one is all that is missing.
func TestPasswords(t *testing.T) {
	broker := testbroker.Kafka(t,
		"listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,LINKED:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=LINKED",
		"listener.name.plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.plaintext.plain.sasl.jaas.config="+
			`org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="right";`,
		"listener.name.plaintext.scram-sha-256.sasl.jaas.config="+
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.plaintext.scram-sha-512.sasl.jaas.config="+
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
	)
	b := benchOf(t, broker.Addr, kgo.SASL(plain.Auth{User: "admin", Pass: "right"}.AsMechanism()))
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		user := kadm.UpsertSCRAM{User: "user", Mechanism: mechanism, Iterations: 4096, Password: "right"}
		users, err := b.admin.AlterUserSCRAMs(b.ctx(), nil, []kadm.UpsertSCRAM{user})
		if err == nil {
			err = users.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(as SASL) error { return b.Refused(b.source("orders", func(s *Source) { s.SASL = as }), 1) }
	for mechanism, user := range map[string]string{"PLAIN": "admin", "SCRAM-SHA-256": "user", "SCRAM-SHA-512": "user"} {
		began := time.Now()
		err := open(SASL{mechanism, connect.Login{User: user, Password: "secret"}})
		subscribetest.WantError(t, err, "check the user and password of kafka.sasl")
		if took := time.Since(began); took > openWithin {
			t.Errorf("%s: that took %s", mechanism, took)
		}
		subscribetest.WantError(t, open(SASL{mechanism, connect.Login{User: user, Password: "right"}}),
			"the topic does not")
	}
	subscribetest.WantError(t, open(SASL{}), "check kafka.tls, kafka.sasl and the port")
}

// A broker of two dies, and with it the leader of one partition. The others go on, and it is taken up with its broker.
func TestPartitionWithoutALeaderOfRealBrokers(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	first := testbroker.Kafka(t)
	b := benchOf(t, first.Addr)
	b.create("before", 1) // so that positions are kept by the first
	second := testbroker.SecondKafka(t, first)
	b.createOn("orders", 1, 2, 1)
	source := b.source("orders", nil)
	o := b.Open(source, 1)
	b.publish("orders", 0, "a")
	b.publish("orders", 1, "b")
	o.Ack(o.Take(2)...)
	o.Close()

	second.Kill()
	subscribetest.Eventually(t, "it is noticed", func() bool {
		topics, err := b.admin.ListTopics(b.ctx(), "orders")
		return err == nil && topics["orders"].Partitions[1].Leader < 0
	})
	o = b.Open(source, 2)
	o.Troubles.Want(t, "partition 1: LEADER_NOT_AVAILABLE")
	_, err := o.Sub.(subscribe.Lagging).Lag(b.ctx())
	subscribetest.WantError(t, err, "partition 1: LEADER_NOT_AVAILABLE")
	b.publish("orders", 0, "c")
	b.publish("orders", 2, "d")
	o.Ack(o.Take(2)...)
	second.Start()
	b.publish("orders", 1, "e")
	o.Ack(o.Expect("e")...)
	subscribetest.Eventually(t, "nothing is wrong", func() bool { return lastTrouble(o) == "<nil>" })
}

// createOn creates a topic with a partition on each of these brokers.
func (b *bench) createOn(topic string, brokers ...int32) {
	b.T.Helper()
	request := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, -1, -1
	for p, broker := range brokers {
		on := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		on.Partition, on.Replicas = int32(p), []int32{broker}
		one.ReplicaAssignment = append(one.ReplicaAssignment, on)
	}
	request.Topics = append(request.Topics, one)
	subscribetest.Eventually(b.T, "the topic "+topic, func() bool {
		_, err := request.RequestWith(b.ctx(), b.client)
		return err == nil && b.served(topic, len(brokers))
	})
}

// used is the processor time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what the heap and the stacks hold.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A hundred subscriptions with nothing to do cost next to nothing, each with a client of its own.
func TestIdleSubscriptionsCostLittle(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	const n, limitCPU, limitMemory = 100, 0.01, 40 << 20
	broker := testbroker.Shared(t, testbroker.KindKafka)
	b := benchOf(t, broker.Addr)
	prefix := testbroker.Name()
	for i := range n {
		b.create(fmt.Sprintf("%s-%d", prefix, i), 1)
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	began := time.Now()
	for i := range n {
		o := b.Open(Source{Brokers: []string{b.addr}, TopicName: fmt.Sprintf("%s-%d", prefix, i), Group: prefix}, 1)
		go func() { _, _ = o.Sub.Receive(t.Context(), 1) }()
	}
	t.Logf("%s for one to open", time.Since(began)/n)
	runtime.GC()
	cpu, from := used(t), time.Now()
	<-time.After(refreshEvery / 2) // nothing is waited for: this is how long it is measured
	share := float64(used(t)-cpu) / float64(time.Since(from))
	grown := memory() - before
	t.Logf("%d subscriptions: %.2f %% of a core, %.1f MiB, %d goroutines", n, 100*share, float64(grown)/(1<<20),
		runtime.NumGoroutine()-goroutines)
	if share > limitCPU || grown > limitMemory {
		t.Errorf("want at most %.0f %% of a core and %d MiB", 100*limitCPU, limitMemory>>20)
	}
}
