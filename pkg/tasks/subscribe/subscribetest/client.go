package subscribetest

import (
	"context"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// client is an open subscription whose messages the ledger judges. One goroutine uses it.
type client struct {
	calls
	*traffic

	owners *owners // who opened it
	source subscribe.Source
	sub    subscribe.Subscription
	n      int // number of the subscription: its token
	closed bool
}

// tryReceive receives, within limit, and has the ledger judge what came.
func (c *client) tryReceive(most int, limit time.Duration) (messages []subscribe.Message, err error) {
	c.Helper()
	c.bounded("Receive", limit, func(ctx context.Context) { messages, err = c.sub.Receive(ctx, most) })
	switch {
	case err == nil && len(messages) == 0:
		c.Fatalf("Receive returned neither messages nor an error: it must wait")
	case err != nil && len(messages) > 0:
		c.Fatalf("Receive returned %d messages and the error %v: who sees the error does not look at messages",
			len(messages), err)
	case len(messages) > most:
		c.Fatalf("Receive returned %d messages: at most %d were asked for", len(messages), most)
	}
	for _, m := range messages {
		if err := c.book.receive(c.n, m); err != nil {
			c.Fatalf("subscription %d: %v", c.n, err)
		}
	}
	return messages, err
}

// receive receives from a broker that is well.
func (c *client) receive(most int) []subscribe.Message {
	c.Helper()
	messages, err := c.tryReceive(most, patience)
	if err != nil {
		c.Fatalf("Receive: want a message within %s, got the error: %v", patience, err)
	}
	return messages
}

// take receives n messages.
func (c *client) take(n int) (taken []subscribe.Message) {
	c.Helper()
	for len(taken) < n {
		messages, err := c.tryReceive(n-len(taken), patience)
		if err != nil {
			c.Fatalf("Receive after %d of %d messages %s: %v", len(taken), n, list(names(taken)), err)
		}
		taken = append(taken, messages...)
	}
	return taken
}

// tryAck acknowledges, and notes in the ledger how that ended.
func (c *client) tryAck(limit time.Duration, messages ...subscribe.Message) (err error) {
	c.Helper()
	c.bounded("Ack", limit, func(ctx context.Context) { err = c.sub.Ack(ctx, messages) })
	c.book.ack(err, messages)
	return err
}

// ack acknowledges at a broker that is well.
func (c *client) ack(messages ...subscribe.Message) {
	c.Helper()
	if err := c.tryAck(patience, messages...); err != nil {
		c.Fatalf("Ack of %s: %v", list(names(messages)), err)
	}
}

// rest receives all that is to come, and checks that nothing is lost. It knows the end by messages that it publishes.
func (c *client) rest(keys ...string) (bodies []string) {
	c.Helper()
	ends := c.messages(len(keys), keys...)
	for i := range ends {
		ends[i].Body = append([]byte("end-of-"), ends[i].Body...)
	}
	c.publish(ends...)
	for left := names(ends); len(left) > 0; {
		messages, err := c.tryReceive(64, patience)
		if err != nil {
			c.Fatalf("Receive after %s, before %s: %v", list(bodies), list(left), err)
		}
		for _, m := range messages {
			name := string(m.Body)
			if i := slices.Index(left, name); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				bodies = append(bodies, name)
			}
		}
	}
	if lost := c.book.lost(c.n); len(lost) > 0 {
		c.Fatalf("lost: %s were not acknowledged, and did not come before what was published later", list(lost))
	}
	return bodies
}

// expectRest is rest, when just the messages are to come, in this order.
func (c *client) expectRest(want []subscribe.Message, keys ...string) {
	c.Helper()
	if got := c.rest(keys...); !slices.Equal(got, names(want)) {
		c.Fatalf("subscription %d received %s, want %s", c.n, list(got), list(names(want)))
	}
}

// close closes a subscription of a broker that is well.
func (c *client) close() {
	c.Helper()
	if err := c.tryClose(patience); err != nil {
		c.Fatalf("Close: %v", err)
	}
}

// tryClose closes it.
func (c *client) tryClose(limit time.Duration) (err error) {
	c.Helper()
	c.closed = true
	c.bounded("Close", limit, func(ctx context.Context) { err = c.sub.Close(ctx) })
	return err
}

// end closes what the check has left open.
func (c *client) end() {
	if !c.closed {
		if err := c.tryClose(soon); err != nil {
			c.Logf("Close at the end of the test: %v", err)
		}
	}
}

// again closes the subscription and opens it under the next token.
func (c *client) again() *client {
	c.Helper()
	c.close()
	return c.owners.reopen(c.source)
}
