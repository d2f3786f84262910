package kafka

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
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
	case <-time.After(subscribetest.Patience):
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
	ctx, cancel := context.WithCancelCause(subscribetest.Context(t))
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
	o := b.Open(b.source("orders", func(s *Source) { s.Missing = subscribe.Earliest }), 3)
	o.Ack(o.Expect("d e f")...)
	if offset, _ := b.committed(group, "orders", 0); offset != 6 {
		t.Errorf("committed %d, want 6", offset)
	}
}

func TestBegin(t *testing.T) {
	at := func(offset int64) *mark { return &mark{Offset: offset, Epoch: 3} }
	log := found{first: 10, end: 50, common: -1, start: 10}
	with := func(change func(f *found)) found {
		f := log
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		found            found
		earliest, latest int64  // where it begins by missing
		lost             string // empty: it is not, and missing makes no difference
	}{
		"no position": {with(func(f *found) { f.start = 17 }), 17, 17, ""},
		"in the log":  {with(func(f *found) { f.kept = at(20) }), 20, 20, ""},
		"at its end":  {with(func(f *found) { f.kept = at(50) }), 50, 50, ""},
		"at its beginning": {
			with(func(f *found) { f.kept = at(10) }), 10, 10, "",
		},
		"same epoch": {with(func(f *found) { f.kept, f.common = at(20), 50 }), 20, 20, ""},
		"deleted":    {with(func(f *found) { f.kept = at(9) }), 10, 50, "the messages before offset 10 were deleted"},
		"beyond the end": {
			with(func(f *found) { f.kept = at(51) }), 10, 50, "the log was truncated and ends at offset 50",
		},
		"truncated, and known where": {
			with(func(f *found) { f.kept, f.common = at(51), 45 }), 45, 50,
			"the log was truncated and ends at offset 50",
		},
		"truncated, and written on": {
			with(func(f *found) { f.kept, f.common = at(48), 40 }), 40, 50,
			"the log was truncated at offset 40 and goes on with other messages",
		},
		"the common part was deleted": {
			with(func(f *found) { f.kept, f.common = at(48), 5 }), 10, 50, "the log was truncated at offset 5",
		},
		"all are gone": {
			with(func(f *found) { f.gone, f.start = true, 17 }), 10, 50, "the group has no position in the topic any more",
		},
		"all are gone, with the topic": {
			with(func(f *found) { f.gone, f.recreated = true, true }), 10, 50, "the topic was deleted and created again",
		},
		"another topic": {
			with(func(f *found) { f.kept, f.recreated = at(20), true }), 10, 50,
			"the topic was deleted and created again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for missing, want := range map[string]int64{
				subscribe.Earliest: c.earliest,
				subscribe.Latest:   c.latest, subscribe.Stop: c.earliest,
			} {
				got, lost, err := c.found.begin(missing)
				switch {
				case !strings.HasPrefix(lost, c.lost) || (lost == "") != (c.lost == ""):
					t.Errorf("%s: lost %q, want %q", missing, lost, c.lost)
				case missing == subscribe.Stop && lost != "":
					if !errors.Is(err, subscribe.ErrStop) || !strings.Contains(err.Error(), "holds offsets 10 to 49") {
						t.Errorf("stop: got %v", err)
					}
				case err != nil || got.Offset != want:
					t.Errorf("%s: begins at %v, %v; want %d", missing, got, err, want)
				}
			}
		})
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	b := fake(t, kfake.TLS(server.TLS.Clone()))
	for want, as := range map[string]TLS{
		"the topic does not exist": {TLS: connect.TLS{CAFile: ca}, Enabled: true},
		"set kafka.tls.caFile to the authority of the broker's certificate": {Enabled: true},
		"the broker closed the connection at once, check kafka.tls":         {},
		"kafka.tls.caFile: source.go holds no PEM certificate": {
			TLS: connect.TLS{CAFile: "source.go"}, Enabled: true,
		},
		"kafka.tls.certFile, keyFile: tls: failed to find any PEM data in k": {
			TLS: connect.TLS{CertFile: ca, KeyFile: "source.go"}, Enabled: true,
		},
	} {
		subscribetest.WantError(t, b.Refused(b.source("orders", func(s *Source) { s.TLS = as }), 1), want)
	}
}

func TestPositionsAreKeptFromExpiring(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b")
	first := b.Open(b.source("orders", nil), 1)
	first.Ack(first.Expect("a b")[0])
	first.Close()
	o := b.Open(b.source("orders", nil), 2)
	kept := o.Sub.(*subscription).kept
	if err := kept.renew(b.ctx()); err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{1, 0} {
		if offset, by := b.committed(group, "orders", int32(p)); offset != want || by != "shardctl g/n 2" {
			t.Errorf("partition %d: committed is %d by %q", p, offset, by)
		}
	}
	// A stale owner renews nothing.
	newer := b.Open(b.source("orders", nil), 3)
	newer.Ack(newer.Expect("b")...)
	subscribetest.WantError(t, kept.renew(b.ctx()), "a newer owner of the task, token 3")
	if offset, by := b.committed(group, "orders", 0); offset != 2 || by != "shardctl g/n 3" {
		t.Errorf("committed is %d by %q", offset, by)
	}
}

// Attempts are kept in the metadata of commits, up to the message's own acknowledgement.
func TestAttemptsInTheMetadata(t *testing.T) {
	b := fake(t)
	b.create("orders", 2)
	b.publish("orders", 0, "a", "b", "c")
	b.publish("orders", 1, "d")
	o := b.Open(b.source("orders", nil), 7)
	got := o.Take(4)
	// Partitions come in any order.
	got = slices.DeleteFunc(got, func(m subscribe.Message) bool { return string(m.Body) == "d" })
	for _, step := range []struct {
		do       func()
		offset   int64
		metadata string
	}{
		{func() { o.Keep(3, got[1]) }, 0, `shardctl g/n 7 {"1":3}`},
		{func() { o.Ack(got[0]) }, 1, `shardctl g/n 7 {"1":3}`},
		{func() { o.Keep(1, got[2]) }, 1, `shardctl g/n 7 {"1":3,"2":1}`},
		{func() { rivalsSoon(o); o.Keep(2, got[2]) }, 1, `shardctl g/n 7 {"1":3,"2":2}`},
		{func() { o.Ack(got[1]) }, 2, `shardctl g/n 7 {"2":2}`},
		{func() { o.Ack(got[2]) }, 3, "shardctl g/n 7"},
	} {
		step.do()
		if offset, metadata := b.committed(group, "orders", 0); offset != step.offset || metadata != step.metadata {
			t.Errorf("committed %d with %q, want %d with %q", offset, metadata, step.offset, step.metadata)
		}
	}
	if _, metadata := b.committed(group, "orders", 1); metadata != "shardctl g/n 7" {
		t.Errorf("partition 1: committed with %q", metadata)
	}
	for _, line := range o.Troubles.All() {
		if line != "<nil>" {
			t.Errorf("said %q", line)
		}
	}
}

// What another task or program wrote, or what cannot be read, is not taken for attempts.
func TestAttemptsThatDoNotCount(t *testing.T) {
	for metadata, want := range map[string]int{
		`shardctl g/n 3 {"0":4}`: 4, `shardctl g/other 3 {"0":4}`: 0, `{"0":4}`: 0, `shardctl g/n 3 {"0":`: 0,
		`shardctl g/n 3 {"0":"4"}`: 0, `shardctl g/n 3 {"0":-4}`: 0, `shardctl g/n x {"0":4}`: 0, "": 0,
	} {
		b := fake(t)
		b.create("orders", 1)
		b.publish("orders", 0, "a")
		b.commit(group, "orders", 0, 0, metadata)
		o := b.Open(b.source("orders", nil), 4)
		m := o.Expect("a")[0]
		if m.Delivered != want {
			t.Errorf("%s: delivered %d times before, want %d", metadata, m.Delivered, want)
		}
		o.Ack(m)
	}
}

// Attempts at messages of a log that is gone are dropped with the position.
func TestAttemptsOfALostPosition(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		b := fake(t)
		b.create("orders", 1)
		b.publish("orders", 0, "a", "b")
		s := b.source("orders", func(s *Source) { s.Missing, s.Offsets = subscribe.Earliest, offsets })
		o := b.Open(s, 1)
		o.Keep(3, o.Expect("a b")...)
		o.Close()
		if _, err := b.admin.DeleteTopic(b.ctx(), "orders"); err != nil {
			t.Fatal(err)
		}
		kept := b.Task
		b = benchOf(t, b.addr) // a client does not produce to another topic of the name
		b.Task = kept
		b.create("orders", 1)
		b.publish("orders", 0, "c", "d")
		for _, m := range b.Open(s, 2).Expect("c d") {
			if m.Delivered != 0 {
				t.Errorf("offsets %s: %s was delivered %d times before", offsets, m.ID, m.Delivered)
			}
		}
	}
}
