package subscribetest

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// checkAckDurable: what was acknowledged does not come again, and all else does.
func checkAckDurable(s *scene) {
	c := s.open()
	sent := s.send(10, "a")
	got := c.take(10)
	c.ack(got[:4]...)
	c = c.again()
	c.expectRest(sent[4:], "a")
}

// checkPieces: with several in flight, each Ack adds to those before it.
func checkPieces(s *scene) {
	c := s.open()
	sent := s.send(12, "a")
	got := c.take(6)
	c.ack(got[0])
	c.ack(got[1], got[2])
	got = append(got, c.take(4)...)
	c.ack(got[3:8]...)
	c = c.again()
	c.expectRest(sent[8:], "a")
}

// checkOtherOrder: acknowledgements that are not cumulative may come in any order and leave gaps.
func checkOtherOrder(s *scene) {
	c := s.open()
	if c.sub.Cumulative() {
		s.Skipf("skipped: acknowledgements of the source are cumulative")
	}
	sent := s.send(8, "a")
	got := c.take(8)
	c.ack(got[6])
	c.ack(got[4], got[2])
	c.ack(got[1])
	c = c.again()
	c.expectRest([]subscribe.Message{sent[0], sent[3], sent[5], sent[7]}, "a")
}

// checkAckEnded: an Ack whose context has ended, as it does with the lease, acknowledges nothing.
func checkAckEnded(s *scene) {
	c := s.open()
	sent := s.send(4, "a")
	got := c.take(4)
	c.ack(got[0])
	if err := c.tryAck(0, got[1:3]...); err == nil {
		s.Fatalf("Ack with a context that had ended returned no error")
	}
	closeBroken(c)
	s.openSoon(c.source).expectRest(sent[1:], "a")
}

// checkAgainAfterClose: what was not acknowledged comes before what was published later, in order.
func checkAgainAfterClose(s *scene) {
	c := s.open()
	sent := s.send(6, "a")
	c.ack(c.take(6)[:2]...)
	newer := s.send(3, "a")
	c = c.again()
	want := slices.Concat(sent[2:], newer)
	got := c.take(len(want)) // and once more, after none of them was acknowledged
	if !slices.Equal(names(got), names(want)) {
		s.Fatalf("after Close and Open came %s, want %s", list(names(got)), list(names(want)))
	}
	c = c.again()
	c.expectRest(want, "a")
}

// checkAgainAfterCut: a cut ends Receive with an error, or the source connects again unnoticed. Nothing is lost.
func checkAgainAfterCut(s *scene) {
	c := s.open()
	sent := s.send(8, "a")
	got := c.take(6)
	c.ack(got[:2]...)
	s.topic.Cut(s.t)
	newer := s.send(3, "a")
	for range len(sent[6:]) + len(newer) {
		if _, err := c.tryReceive(1, patience); err != nil {
			fatalIfContext(c, err, "a cut, before "+list(s.book.lost(c.n)))
			break
		}
	}
	closeBroken(c)
	s.openSoon(c.source).expectRest(slices.Concat(sent[2:], newer), "a")
}

// fatalIfContext fails when a call waited until its context ended.
func fatalIfContext(c *client, err error, after string) {
	c.Helper()
	if isContext(err) {
		c.Fatalf("Receive after %s: want messages or an error within %s, got neither", after, patience)
	}
}

// closeBroken closes a subscription whose connection was broken. It may say so.
func closeBroken(c *client) {
	c.Helper()
	if err := c.tryClose(soon); err != nil {
		c.Logf("Close after the connection was broken: %v", err)
	}
}

// checkAckAfterCut: an Ack over a broken connection fails, or is durable.
func checkAckAfterCut(s *scene) {
	c := s.open()
	for range 5 {
		s.send(4, "a")
		got := c.take(4)
		s.topic.Cut(s.t)
		if err := c.tryAck(patience, got[:2]...); err != nil {
			s.Logf("Ack after a cut: %v", err)
		}
		closeBroken(c)
		c = s.openSoon(c.source)
		c.ack(takeOpen(c)...)
	}
	c.expectRest(nil, "a")
}

// takeOpen receives what may still come. Messages whose Ack failed may have been acknowledged all the same.
func takeOpen(c *client) (taken []subscribe.Message) {
	c.Helper()
	for len(c.book.lost(c.n)) > 0 {
		messages, err := c.tryReceive(8, patience)
		if err != nil {
			c.Fatalf("lost: %s did not come again within %s: %v", list(c.book.lost(c.n)), patience, err)
		}
		taken = append(taken, messages...)
	}
	return taken
}

// checkAgainAfterCrash: an owner dies without Close, and its connections with it. The next one has a newer token.
func checkAgainAfterCrash(s *scene) {
	c := s.open()
	var sent []subscribe.Message
	for range 3 {
		fresh := s.send(6, "a")
		sent = append(sent, fresh...)
		c.ack(c.take(4)[:2]...)
		sent = sent[2:]
		s.topic.Cut(s.t)
		c = s.openSoon(c.source)
	}
	c.expectRest(sent, "a")
}

// checkStaleOwner: an owner that a newer token has replaced acknowledges nothing.
func checkStaleOwner(s *scene) {
	stale := s.open()
	sent := s.send(6, "a")
	got := stale.take(6)
	stale.ack(got[0])
	c := s.reopen(stale.source)
	if err := stale.tryAck(patience, got[1:3]...); err == nil {
		s.Fatalf("Ack of token %d returned no error, after token %d had opened the subscription", stale.n, c.n)
	}
	c.expectRest(sent[1:], "a")
}

// checkAttempts: what is kept of attempts comes with the messages, after Close and after a crash. A broker may count
// what it has given once more for each owner.
func checkAttempts(s *scene, c *client) {
	if _, ok := c.sub.(subscribe.Keeping); !ok {
		s.Skipf("skipped: the source does not keep attempts")
	}
	s.send(4, "a")
	got := c.take(4)
	c.keep([]int{5, 2}, got[1], got[2])
	c.ack(got[0])
	c = c.again()
	got = c.take(3)
	c.expectDelivered(got, 5, 2, 0)
	c.keep([]int{6}, got[0])
	s.topic.Cut(s.t)
	c = s.openSoon(c.source)
	got = c.take(3)
	c.expectDelivered(got, 6, 2, 0)
	c.keep([]int{0, 9}, got[0], got[1])
	c = c.again()
	got = c.take(3)
	c.expectDelivered(got, 0, 9, 0)
	c.ack(got[0])
	c = c.again()
	got = c.take(2)
	c.expectDelivered(got, 9, 0)
	c.ack(got...)
	c.expectRest(nil, "a")
}

// keep keeps attempts.
func (c *client) keep(attempts []int, messages ...subscribe.Message) {
	c.Helper()
	for i, n := range attempts {
		messages[i].Delivered = n
	}
	var err error
	c.bounded("KeepDelivered", patience, func(ctx context.Context) {
		err = c.sub.(subscribe.Keeping).KeepDelivered(ctx, messages)
	})
	if err != nil {
		c.Fatalf("KeepDelivered of %s: %v", list(names(messages)), err)
	}
}

// expectDelivered compares attempts. A broker may count more: up to one for each subscription before.
func (c *client) expectDelivered(messages []subscribe.Message, want ...int) {
	c.Helper()
	for i, m := range messages {
		if m.Delivered < want[i] || m.Delivered >= want[i]+c.n {
			c.Fatalf("subscription %d received %s as delivered %d times before, want %d, and at most %d",
				c.n, label(m), m.Delivered, want[i], want[i]+c.n-1)
		}
	}
}
