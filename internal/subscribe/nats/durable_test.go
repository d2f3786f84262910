package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

func TestMessage(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	msg := natsio.NewMsg(r.name + ".eu")
	msg.Data = []byte{0, 0xff}
	msg.Header.Set("Content-Type", "text/plain")
	msg.Header.Add("Many", "a")
	msg.Header.Add("Many", "b")
	ack, err := r.js.PublishMsg(r.within(), msg)
	if err != nil {
		t.Fatal(err)
	}
	m := r.open(1).Take(1)[0]
	if m.ID != fmt.Sprintf("%s/%d", r.name, ack.Sequence) || string(m.Key) != r.name+".eu" || m.Type != "text/plain" ||
		len(m.Headers) != 1 || m.Headers["Many"] != "a, b" || string(m.Body) != "\x00\xff" ||
		time.Since(m.Time).Abs() > time.Minute || m.Again {
		t.Errorf("got %+v", m)
	}
}

// A message is known again, and never taken for one of a stream of the same name that was made again.
func TestMessagesOfAStreamThatIsMadeAnew(t *testing.T) {
	r := newRig(t)
	r.source.Missing = subscribe.Earliest
	seen := map[string]bool{}
	for i := range int64(2) {
		r.stream(jetstream.StreamConfig{})
		r.add("a", "0")
		owner := r.open(2*i + 1)
		is := owner.Expect("0")[0]
		owner.Close()
		r.waitGone()
		owner = r.open(2*i + 2)
		if again := owner.Expect("0")[0]; again.Unique() != is.Unique() {
			t.Errorf("it is %s, and then %s", is.Unique(), again.Unique())
		}
		owner.Close()
		if seen[is.Unique()] {
			t.Errorf("%s is a message of both", is.Unique())
		}
		seen[is.Unique()] = true
		if err := r.js.DeleteStream(r.within(), r.name); err != nil {
			t.Fatal(err)
		}
	}
}

// A new owner gets what the last one did not acknowledge, of all subjects in the order of the stream, and before what
// is new. Each owner has one consumer, and only the last one is left.
func TestUnacknowledgedComesAgainFirst(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	for n := range 6 {
		r.add("abc"[n%3:n%3+1], fmt.Sprint(n))
	}
	first := r.open(1)
	got := first.Take(5)
	first.Ack(got[:2]...)
	first.Close()
	r.waitGone()
	r.add("a", "6")
	second := r.open(2)
	again := second.Expect("2 3 4 5 6")
	// Message 5 was read ahead.
	if !again[0].Again || !again[2].Again || again[4].Again {
		t.Errorf("again is %t, %t, %t", again[0].Again, again[2].Again, again[4].Again)
	}
	second.Ack(again...)
	if lag := second.Lag(); lag.Messages != 0 || lag.Seconds != 0 {
		t.Errorf("lag %+v", lag)
	}
	second.Close()
	r.open(2)
	if all := r.consumers(); !slices.Equal(all, []string{"shardctl-shop-orders-2-1"}) {
		t.Errorf("consumers %q", all)
	}
}

// A replica that has lost its lease, and does not know, acknowledges nothing.
func TestStaleOwner(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0", "1", "2")
	stale := r.open(1)
	got := stale.Take(2)
	waiting := make(chan error, 1)
	go func() {
		for {
			if _, err := stale.TryReceive(1); err != nil {
				waiting <- err
				return
			}
		}
	}()
	owner := r.open(2)
	subscribetest.WantError(t, stale.TryAck(got...), "a newer owner has taken over", r.name)
	subscribetest.WantError(t, <-waiting, "a newer owner has taken over", r.name)
	subscribetest.WantError(t, r.refused(1), "of a newer owner, with token 2", "shardctl-shop-orders-2-0")
	if lag := owner.Lag(); lag.Messages != 3 {
		t.Errorf("lag %+v", lag)
	}
	owner.Expect("0 1 2")
}

// A consumer that an owner made too late does not count, and is deleted.
func TestLateConsumer(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0", "1", "2")
	owner := r.open(2)
	owner.Ack(owner.Take(1)...)
	late, err := r.js.CreateConsumer(r.within(), r.name, jetstream.ConsumerConfig{
		Durable: "shardctl-shop-orders-1-0", AckPolicy: jetstream.AckExplicitPolicy,
		Metadata: map[string]string{"shardctl-task": "shop/orders"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		msg, err := late.Next(jetstream.FetchMaxWait(subscribetest.Patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := msg.DoubleAck(r.within()); err != nil {
			t.Fatal(err)
		}
	}
	owner.Close()
	if got := r.open(3).Expect("1 2"); !got[1].Again {
		t.Error("Again is not set on a message that was given before")
	}
	if all := r.consumers(); !slices.Equal(all, []string{"shardctl-shop-orders-3-0"}) {
		t.Errorf("consumers %q", all)
	}
}

func TestTwoTasksWithOneConsumer(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.source.Consumer = "readers"
	r.open(5)
	other := subscribetest.Named(t, "shop", "invoices")
	subscribetest.WantError(t, other.Refused(r.source, 9), `"shop/orders"`, "another nats.consumer", r.name)
	r.source.Consumer = "readers-5" // begins as the other's consumer does
	r.open(9)
}

func TestUnknownStream(t *testing.T) {
	r := newRig(t)
	subscribetest.WantError(t, r.refused(1), "there is no such stream", r.name, r.broker.Addr, "nats.stream")
	if _, err := r.js.Stream(r.within(), r.name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream was created: %v", err)
	}
}

func TestStart(t *testing.T) {
	for start, want := range map[string]string{
		"": "0 1 2 new", subscribe.Earliest: "0 1 2 new", subscribe.Latest: "new", "time": "2 new",
	} {
		t.Run(start, func(t *testing.T) {
			r := newRig(t)
			r.stream(jetstream.StreamConfig{})
			r.add("a", "0", "1", "2")
			if r.source.Start = start; start == "time" {
				stream, err := r.js.Stream(r.within(), r.name)
				if err != nil {
					t.Fatal(err)
				}
				msg, err := stream.GetMsg(r.within(), 3)
				if err != nil {
					t.Fatal(err)
				}
				r.source.Start = msg.Time.Format(time.RFC3339Nano)
			}
			s := r.open(1)
			r.add("a", "new")
			n := len(strings.Fields(want))
			lag := s.Lag()
			subscribetest.Eventually(t, "a lag", func() bool { // the server counts a moment later than it confirms
				lag = s.Lag()
				return lag.Messages > 0
			})
			if lag.Messages != int64(n) || lag.Seconds < 0 || lag.Seconds > 60 {
				t.Errorf("lag %+v, want %d messages", lag, n)
			}
			s.Expect(want)
			// A position that nothing was acknowledged at is kept all the same.
			s.Close()
			r.open(2).Expect(want)
		})
	}
}

func TestFilter(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.source.Subject = r.name + ".eu.*"
	r.add("eu.a", "0")
	r.add("us.a", "1")
	r.add("eu.b", "2")
	s := r.open(1)
	if lag := s.Lag(); lag.Messages != 2 {
		t.Errorf("lag %+v", lag)
	}
	got := s.Expect("0 2")
	if string(got[1].Key) != r.name+".eu.b" {
		t.Errorf("the key is %s", got[1].Key)
	}
	s.Ack(got...)
	if lag := s.Lag(); lag.Messages != 0 {
		t.Errorf("lag %+v", lag)
	}
}

func TestDeadLetterWithoutStream(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0")
	s := r.open(1)
	m := s.Take(1)[0]
	err := s.TryDeadLetter("nowhere."+r.name, m, subscribe.Why{Err: errors.New("no")})
	subscribetest.WantError(t, err, "nowhere."+r.name, "no stream takes this subject")
	m.Body = make([]byte, 2<<20)
	err = s.TryDeadLetter(r.name+".dead", m, subscribe.Why{Err: errors.New("no")})
	subscribetest.WantError(t, err, "maximum payload exceeded", "max_payload")
	// What JetStream takes for requests to itself stays away, and a header is one line.
	m.Body, m.Headers = []byte("x"), map[string]string{"Nats-Rollup": "all", "Nats-Msg-Id": "1", "A": "b"}
	if err = s.TryDeadLetter(r.name+".dead", m, subscribe.Why{Err: errors.New("no\nway")}); err != nil {
		t.Fatal(err)
	}
	letter := r.readStream(t, r.name, 2)[1]
	if letter.Headers["A"] != "b" || letter.Headers["Shardctl-Dead-Error"] != "no way" || len(letter.Headers) != 6 {
		t.Errorf("got %q", letter.Headers)
	}
}

// Hundreds of messages, and some as large as the server takes.
func TestSizes(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	big := strings.Repeat("x", 1<<20)
	r.add("a", big, big, big, big, big, big)
	r.add("a", numbers(600)...)
	s, opened := r.open(1), int64(1)
	var got []subscribe.Message
	for len(got) < 606 {
		next, err := s.TryReceive(1)
		if err != nil && strings.Contains(err.Error(), "come again") {
			// The library drops a message where more come at once than its queue holds. The next session gets it.
			s.Close()
			opened++
			s = r.open(opened)
			continue
		}
		if err != nil {
			t.Fatalf("after %d messages: %v", len(got), err)
		}
		s.Ack(next...)
		got = append(got, next...)
	}
	if len(got[5].Body) != len(big) || subscribetest.Texts(got[6:]) != strings.Join(numbers(600), " ") {
		t.Errorf("got %d bytes and %s", len(got[5].Body), subscribetest.Texts(got[6:]))
	}
	if lag := s.Lag(); lag.Messages != 0 {
		t.Errorf("lag %+v", lag)
	}
}

func TestServerIsKilled(t *testing.T) {
	b := testbroker.NATS(t)
	r := rigAt(t, b)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0", "1", "2")
	s := r.open(1)
	got := s.Take(2)
	s.Ack(got[:1]...)
	b.Kill()
	subscribetest.WantError(t, s.Fails(1), b.Addr, r.name) // one had been read ahead
	subscribetest.WantError(t, s.TryAck(got[1:]...), b.Addr)
	subscribetest.WantError(t, r.refused(1), b.Addr, "see whether")
	s.Close()
	b.Start()
	// The server writes down acknowledgements a little later than it confirms them.
	if again := r.open(1).Take(2); subscribetest.Texts(again) != "1 2" && subscribetest.Texts(again) != "0 1" {
		t.Errorf("got %s", subscribetest.Texts(again))
	}
}

func TestServerIsSilent(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	b := testbroker.NATS(t)
	r := rigAt(t, b)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0", "1", "2")
	s := r.open(1)
	got := s.Take(3)
	b.Freeze()
	defer b.Thaw()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Sub.Ack(short, got[:1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	subscribetest.WantError(t, s.TryAck(got[1:]...), "no answer in time", b.Addr)
	subscribetest.WantError(t, r.refused(1), "no answer in time", b.Addr)
	subscribetest.WantError(t, s.Fails(0), "the server is silent", b.Addr)
	s.Close()
	b.Thaw()
	// The acknowledgements had been sent, and may be carried out or not.
	r.add("a", "last")
	for again := r.open(1); ; {
		if m := again.Take(1)[0]; string(m.Body) == "last" {
			break
		}
	}
}

// delivered is how often messages were delivered before.
func delivered(messages []subscribe.Message) (counts []int) {
	for _, m := range messages {
		counts = append(counts, m.Delivered)
	}
	return counts
}

// Attempts are in the metadata of the consumer, and go on to that of the next owner. What cannot be read is nothing.
func TestAttemptsInTheMetadata(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "1", "2", "3")
	owner := r.open(1)
	got := owner.Expect("1 2 3")
	owner.Keep(4, got[0])
	owner.Ack(got[0])
	owner.Keep(2, got[1])
	owner.Close()
	owner = r.open(2)
	if counts := delivered(owner.Expect("2 3")); !slices.Equal(counts, []int{2, 0}) {
		t.Errorf("delivered %v times before", counts)
	}
	consumer, err := r.js.Consumer(r.within(), r.name, r.consumers()[0])
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	if kept := config.Metadata["shardctl-attempts"]; kept != `{"2":2}` {
		t.Errorf("kept are %s", kept)
	}
	config.Metadata["shardctl-attempts"] = `{"2":"2"`
	if _, err := r.js.UpdateConsumer(r.within(), r.name, config); err != nil {
		t.Fatal(err)
	}
	owner.Close()
	if counts := delivered(r.open(3).Expect("2 3")); !slices.Equal(counts, []int{0, 0}) {
		t.Errorf("delivered %v times before", counts)
	}
}
