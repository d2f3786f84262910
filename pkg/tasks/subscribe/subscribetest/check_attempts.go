package subscribetest

import (
	"context"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// checkAttempts: what is kept of attempts comes with the messages, after Close and after a crash. A broker may count
// what it has given once more for each owner.
func checkAttempts(s *scene, c *client) {
	if _, ok := c.sub.(subscribe.Keeping); !ok {
		s.Skipf("skipped: the source does not keep attempts")
	}
	sent := s.messages(4, "a")
	s.publish(sent...)
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
