package subscribetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// checkValue: a Source is a value that says what it is.
func checkValue(s *scene) {
	a, b := s.topic.Source(s.t), s.topic.Source(s.t)
	switch {
	case !reflect.DeepEqual(a, b):
		s.Fatalf("two values of Source differ: %+v and %+v", a, b)
	case a.Kind() == "" || a.Topic() == "":
		s.Fatalf("Kind is %q and Topic %q: both must say something", a.Kind(), a.Topic())
	}
	if wrong := a.Validate(); len(wrong) > 0 {
		s.Fatalf("Validate of a source that works: %v", wrong)
	}
	if len(a.Print()) == 0 {
		s.Fatalf("Print shows no field")
	}
}

var sixKeys = []string{"a", "b", "c", "d", "e", "f"}

// checkOrder: messages come in order within a partition.
func checkOrder(s *scene) {
	c := s.open()
	for range 3 {
		s.send(40, sixKeys...)
		for got := 0; got < 40; {
			messages := c.receive(7)
			c.ack(messages...)
			got += len(messages)
		}
	}
	c.expectRest(nil, sixKeys...)
}

// checkBeginning: the first Open of a consumer begins with the oldest message.
func checkBeginning(s *scene) {
	old := s.send(5, "a")
	c := s.open()
	c.expectRest(old, "a")
}

// checkBeginningLogged: an Open that finds no position logs where it begins, and one that finds one does not.
func checkBeginningLogged(s *scene, open func() *client) {
	c := open()
	if s.beginnings.Swap(0) == 0 {
		s.Fatalf("the first Open did not log that no position was kept, and where it begins")
	}
	s.send(1, "a")
	c.ack(c.take(1)...)
	c.again()
	if s.beginnings.Load() > 0 {
		s.Fatalf("Open after Ack logged that no position was kept: there is one")
	}
}

// checkContent: what was published is what comes.
func checkContent(s *scene) {
	c := s.open()
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	long := make([]byte, 200<<10)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // bytes that do not compress, the same in each run
	for i := range long {
		long[i] = byte(random.Uint32() & 0xff)
	}
	want := []subscribe.Message{
		{Key: []byte("a"), Body: []byte("text"), Type: "text/plain"},
		{Key: []byte("a"), Body: binary, Type: "application/octet-stream"},
		{Key: []byte("a"), Body: []byte{}},
		{Key: []byte("a"), Body: long},
		{Key: []byte("a\x00\xff"), Body: []byte("binary key")},
		{Body: []byte("no key")},
		{Key: []byte("a"), Body: []byte("headers"), Type: "application/json", Headers: map[string]string{
			"Trace-Id": "00-ab cd", "tenant": "Zürich", "empty": "",
		}},
	}
	began := time.Now()
	s.publish(want...)
	for range want {
		got := c.receive(1)[0]
		i := bodyIn(want, got.Body)
		if i < 0 {
			s.Fatalf("a body of %d bytes came that was not published", len(got.Body))
		}
		s.sameAs(got, want[i])
		if got.Again {
			s.Fatalf("%s: Again is set, and it comes for the first time", label(got))
		}
		if age := got.Time.Sub(began).Abs(); age > 5*time.Minute && !got.Time.IsZero() {
			s.Fatalf("%s: Time is %s, it was published at %s", label(got), got.Time, began)
		}
		c.ack(got)
	}
}

// checkMost: Receive returns at most so many. The client sees to it.
func checkMost(s *scene) {
	c := s.open()
	sent := s.send(12, "a")
	var got []subscribe.Message
	for _, most := range []int{1, 1, 3, 1, 2} {
		got = append(got, c.receive(most)...)
	}
	got = append(got, c.take(len(sent)-len(got))...)
	c.ack(got...)
}

// checkWaits: Receive waits where there is nothing, returns when its context ends, and works again afterwards.
func checkWaits(s *scene) {
	c := s.open()
	began := time.Now()
	_, err := c.tryReceive(1, moment)
	if !isContext(err) {
		s.Fatalf("Receive of an empty topic, for %s: want the context's error, got %v", moment, err)
	}
	if took := time.Since(began); took < moment*9/10 {
		s.Fatalf("Receive of an empty topic returned after %s, its context ended after %s: it must wait", took, moment)
	}
	expectCancelled(c)
	s.send(1, "a")
	c.ack(c.take(1)...)
}

// expectCancelled: a context that is cancelled with a cause ends Receive as one that runs out does.
func expectCancelled(c *client) {
	cause := errors.New("the test cancels")
	var got []subscribe.Message
	var err error
	c.bounded("Receive", moment, func(ctx context.Context) {
		ctx, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(moment/3, func() { cancel(cause) })
		defer timer.Stop()
		defer cancel(nil)
		got, err = c.sub.Receive(ctx, 1)
	})
	if len(got) > 0 || !isContext(err) && !errors.Is(err, cause) {
		c.Fatalf("Receive whose context was cancelled: want the context's error, got %d messages and %v", len(got), err)
	}
}

// checkInterrupted: a Receive that its context ends loses nothing.
func checkInterrupted(s *scene) {
	c := s.open()
	var got []subscribe.Message
	for began, i := time.Now(), 0; len(got) < 60; i++ {
		if i < 60 {
			s.send(1, "a", "b")
		}
		messages, err := c.tryReceive(1+i%3, time.Duration(i%8)*time.Millisecond)
		if err != nil && !isContext(err) {
			s.Fatalf("Receive with a context that ends early: %v", err)
		}
		got = append(got, messages...)
		if len(messages) > 0 {
			c.ack(messages...)
		}
		if time.Since(began) > patience {
			s.Fatalf("lost: Receive calls that their contexts ended early gave %d of 60 messages within %s, missing %s",
				len(got), patience, list(s.book.lost(c.n)))
		}
	}
	c.expectRest(nil, "a", "b")
}

// checkPause: messages of a partition that is left out do not come, those of others do. Once it is not left out any
// more, all of it comes in order.
func checkPause(s *scene) {
	c := s.open()
	sub, ok := c.sub.(subscribe.Pausing)
	if !ok {
		s.Skipf("skipped: the source leaves no partitions out")
	}
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	s.send(len(keys), keys...)
	of := map[string]string{} // partitions of keys
	first := c.take(len(keys))
	for _, m := range first {
		of[string(m.Key)] = m.Partition
	}
	c.ack(first...)
	out := of[keys[0]]
	sent := s.messages(4*len(keys), keys...)
	later := slices.DeleteFunc(slices.Clone(sent), func(m subscribe.Message) bool { return of[string(m.Key)] != out })
	sub.Pause([]string{out})
	s.publish(sent...)
	others := c.take(len(sent) - len(later))
	for _, m := range others {
		if m.Partition == out {
			s.Fatalf("%s of partition %s came, which is left out", m.Body, out)
		}
	}
	if messages, err := c.tryReceive(1, moment); err == nil {
		s.Fatalf("%s came, and only partition %s has messages, which is left out", list(names(messages)), out)
	}
	c.ack(others...)
	sub.Pause(nil)
	got := c.take(len(later))
	if !slices.Equal(names(got), names(later)) {
		s.Fatalf("of the partition that was left out came %s, want %s", list(names(got)), list(names(later)))
	}
	c.ack(got...)
}

// flood is how many messages come while no one receives: more than may be in flight, and than sources have space for
// that count them.
const flood = 800

// checkFlood: however much comes while all that may be in flight is, calls that need an answer of the broker get it.
// All of it comes afterwards, in order.
func checkFlood(s *scene) {
	c := s.open()
	first := s.send(inFlight, "a")
	got := c.take(len(first))
	sent := s.messages(flood, "a")
	s.flood(sent...)
	letters(c, got[:1])
	if sub, ok := c.sub.(subscribe.Lagging); ok && lagging(s.topic) == "" {
		c.bounded("Lag", patience, func(ctx context.Context) {
			if _, err := sub.Lag(ctx); err != nil {
				s.Fatalf("Lag while %d messages wait to be received: %v", flood, err)
			}
		})
	}
	c.ack(got...)
	for came := 0; came < flood; {
		messages := c.receive(min(inFlight, flood-came))
		c.ack(messages...)
		came += len(messages)
	}
	c.expectRest(nil, "a")
}

const (
	turns = 5               // of opening, waiting for a message that does not come, and closing
	quick = 2 * time.Second // a Close that takes longer waits for something, such as the answer to a long poll
)

// checkTurns: Close returns at once after a Receive that has just waited, as in each hand-over. The next owner waits
// for that. The log says what an Open and a Close take.
func checkTurns(s *scene) {
	s.Helper()
	var opens, closes []time.Duration
	for range turns {
		began := time.Now()
		c := s.open()
		opens = append(opens, time.Since(began))
		if messages, err := c.tryReceive(64, moment); err == nil {
			s.Fatalf("Receive returned %d messages: none were published", len(messages))
		}
		began = time.Now()
		c.close()
		closes = append(closes, time.Since(began))
	}
	s.Logf("medians of %d: Open took %s, Close took %s", turns, median(opens), median(closes))
	if took := median(closes); took > quick {
		s.Fatalf("Close after a Receive that was interrupted took %s, the median of %d: want at most %s", took, turns,
			quick)
	}
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
