package kafka

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

// leaderless has a cluster answer that partition 1 of three has no leader, for as long as absent says so. The logs of
// the others begin at 0 and end at ends.
func leaderless(cluster *kfake.Cluster, ends map[int32]int64) (absent *atomic.Bool) {
	absent = &atomic.Bool{}
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asking, _ := req.(*kmsg.OffsetForLeaderEpochRequest)
		answer, _ := asking.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		of := kmsg.NewOffsetForLeaderEpochResponseTopic()
		of.Topic = asking.Topics[0].Topic
		for _, p := range asking.Topics[0].Partitions {
			is := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			if is.Partition, is.EndOffset = p.Partition, ends[p.Partition]; p.Partition == 1 {
				is.ErrorCode = kerr.LeaderNotAvailable.Code
			}
			of.Partitions = append(of.Partitions, is)
		}
		answer.Topics = append(answer.Topics, of)
		return answer, nil, absent.Load()
	})
	cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asking, _ := req.(*kmsg.ListOffsetsRequest)
		answer, _ := asking.ResponseKind().(*kmsg.ListOffsetsResponse)
		of := kmsg.NewListOffsetsResponseTopic()
		of.Topic = asking.Topics[0].Topic
		for _, p := range asking.Topics[0].Partitions {
			is := kmsg.NewListOffsetsResponseTopicPartition()
			switch is.Partition = p.Partition; {
			case p.Partition == 1:
				is.ErrorCode = kerr.LeaderNotAvailable.Code
			case p.Timestamp == atFirst:
				is.Offset = 0
			default:
				is.Offset = ends[p.Partition]
			}
			of.Partitions = append(of.Partitions, is)
		}
		answer.Topics = append(answer.Topics, of)
		return answer, nil, absent.Load()
	})
	return absent
}

// One partition without a leader holds up nothing of the others. That is said, and it is taken up when it has one.
func TestPartitionWithoutALeader(t *testing.T) {
	for name, start := range map[string]string{
		"went on": subscribe.Earliest, "new": subscribe.Earliest,
		"new, from the end": subscribe.Latest,
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			b := benchOf(t, cluster.ListenAddrs()[0])
			b.create("orders", 3)
			source := b.source("orders", func(s *Source) { s.Start = start })
			if name == "went on" {
				o := b.Open(source, 1)
				b.publish("orders", 0, "old")
				b.publish("orders", 1, "old")
				b.publish("orders", 2, "old")
				o.Ack(o.Take(3)...)
				o.Close()
			}
			ends := map[int32]int64{}
			for _, p := range []int32{0, 2} {
				if offset, _ := b.committed(group, "orders", p); offset > 0 {
					ends[p] = offset
				}
			}
			absent := leaderless(cluster, ends)
			absent.Store(true)
			o := b.Open(source, 2)
			o.Troubles.Want(t, "partition 1: LEADER_NOT_AVAILABLE")
			_, err = o.Sub.(subscribe.Lagging).Lag(b.ctx())
			subscribetest.WantError(t, err, "partition 1: LEADER_NOT_AVAILABLE")
			b.publish("orders", 0, "a")
			o.Ack(o.Expect("a")...)
			b.publish("orders", 1, "b") // it has a leader, before that is noticed
			absent.Store(false)
			o.Ack(o.Expect("b")...)
			subscribetest.Eventually(t, "nothing is wrong", func() bool { return lastTrouble(o) == "<nil>" })
			if lag := o.Lag(); lag.Messages != 0 {
				t.Errorf("behind by %+v", lag)
			}
			before := ends[0] // both had as many messages
			if offset, _ := b.committed(group, "orders", 1); offset != before+1 {
				t.Errorf("committed %d for the partition, want %d", offset, before+1)
			}
		})
	}
}

// A topic that was just created is opened once all its partitions have a leader, and nothing is said of that.
func TestPartitionsOfANewTopicAreWaitedFor(t *testing.T) {
	for _, start := range []string{subscribe.Earliest, subscribe.Latest} {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		b := benchOf(t, cluster.ListenAddrs()[0])
		b.create("orders", 3)
		absent := leaderless(cluster, nil)
		absent.Store(true)
		cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			absent.Store(false) // as the positions of the others are kept
			return nil, nil, false
		})
		o := b.Open(b.source("orders", func(s *Source) { s.Start = start }), 1)
		b.publish("orders", 1, "a")
		o.Ack(o.Expect("a")...)
		o.Troubles.WantNone(t)
	}
}

// A topic of which no partition has a leader cannot be opened.
func TestNoPartitionHasALeader(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := benchOf(t, cluster.ListenAddrs()[0])
	b.create("orders", 3)
	leaderless(cluster, nil).Store(true)
	err = b.Refused(b.source("orders", func(s *Source) { s.Partitions = []int32{1} }), 1)
	subscribetest.WantError(t, err, "topic orders: partition 1: LEADER_NOT_AVAILABLE")
}

// A position that turns out to be lost when its partition is there ends the subscription, as it does when it opens.
func TestPositionOfAnAbsentPartitionIsLost(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := benchOf(t, cluster.ListenAddrs()[0])
	b.create("orders", 3)
	b.commit(group, "orders", 1, 10, "")
	absent := leaderless(cluster, nil)
	absent.Store(true)
	o := b.Open(b.source("orders", nil), 1)
	absent.Store(false)
	subscribetest.WantStop(t, o.Fails(0), "partition 1", "position 10 is lost")
}

func TestLeaderless(t *testing.T) {
	is := topic{partitions: 4, leaders: []int32{0, -1, 2, -1}}
	if err := is.leaderless([]int32{0, 2}).report(); err != nil {
		t.Error(err)
	}
	subscribetest.WantError(t, is.leaderless([]int32{3, 0, 1}).report(), "partition 1, 3: LEADER_NOT_AVAILABLE",
		"other partitions go on")
}

// A partition that loses its leader while it is consumed is reported, and holds up no other.
func TestPartitionLosesItsLeader(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := benchOf(t, cluster.ListenAddrs()[0])
	b.create("orders", 2)
	o := b.Open(b.source("orders", nil), 1)
	is := o.Sub.(*subscription).topicIs
	host, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	lost.Store(true)
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer, _ := req.ResponseKind().(*kmsg.MetadataResponse)
		broker, of := kmsg.NewMetadataResponseBroker(), kmsg.NewMetadataResponseTopic()
		broker.NodeID, broker.Host, broker.Port = is.leaders[0], host, int32(number)
		of.Topic, of.TopicID = new("orders"), is.id
		for p := range int32(2) {
			part := kmsg.NewMetadataResponseTopicPartition()
			if part.Partition, part.Leader = p, is.leaders[0]; p == 1 {
				part.Leader, part.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			}
			of.Partitions = append(of.Partitions, part)
		}
		answer.ControllerID = is.leaders[0]
		answer.Brokers, answer.Topics = append(answer.Brokers, broker), append(answer.Topics, of)
		return answer, nil, lost.Load()
	})
	reported := func() bool { return o.Troubles.Count("partition 1: LEADER_NOT_AVAILABLE") > 0 }
	subscribetest.Eventually(t, "that it is reported", reported)
	b.publish("orders", 0, "a")
	o.Ack(o.Expect("a")...)
	lost.Store(false)
	subscribetest.Eventually(t, "nothing is wrong", func() bool { return lastTrouble(o) == "<nil>" })
}
