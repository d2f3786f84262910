package subscribetest

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// Client is an open subscription. Methods that begin with Try may be called by other goroutines than the test's.
type Client struct {
	Sub      subscribe.Subscription
	Troubles Lines // what it said of itself; "<nil>" when nothing was wrong any more

	t      *testing.T
	closed bool
}

// TryReceive receives from 1 to most messages.
func (c *Client) TryReceive(most int) ([]subscribe.Message, error) {
	c.t.Helper()
	return c.Sub.Receive(Context(c.t), most)
}

// TryAck acknowledges messages.
func (c *Client) TryAck(messages ...subscribe.Message) error {
	c.t.Helper()
	return c.Sub.Ack(Context(c.t), messages)
}

// TryDeadLetter publishes a dead letter.
func (c *Client) TryDeadLetter(to string, m subscribe.Message, why subscribe.Why) error {
	c.t.Helper()
	return c.Sub.DeadLetter(Context(c.t), to, m, why)
}

// TryClose closes a subscription whose connection may have ended.
func (c *Client) TryClose() error {
	c.t.Helper()
	c.closed = true
	return c.Sub.Close(Context(c.t))
}

// Take receives n messages.
func (c *Client) Take(n int) (taken []subscribe.Message) {
	c.t.Helper()
	for len(taken) < n {
		messages, err := c.TryReceive(n - len(taken))
		if err != nil {
			c.t.Fatalf("Receive after %d of %d messages: %v", len(taken), n, err)
		}
		taken = append(taken, messages...)
	}
	return taken
}

// Expect receives messages with these bodies, which spaces separate.
func (c *Client) Expect(texts string) []subscribe.Message {
	c.t.Helper()
	taken := c.Take(len(strings.Fields(texts)))
	if got := Texts(taken); got != texts {
		c.t.Fatalf("received %q, want %q", got, texts)
	}
	return taken
}

// Ack acknowledges messages at a broker that works.
func (c *Client) Ack(messages ...subscribe.Message) {
	c.t.Helper()
	if err := c.TryAck(messages...); err != nil {
		c.t.Fatalf("Ack of %q: %v", Texts(messages), err)
	}
}

// Keep keeps that messages were delivered so often.
func (c *Client) Keep(n int, messages ...subscribe.Message) {
	c.t.Helper()
	for i := range messages {
		messages[i].Delivered = n
	}
	if err := c.Sub.(subscribe.Keeping).KeepDelivered(Context(c.t), messages); err != nil {
		c.t.Fatalf("KeepDelivered of %q: %v", Texts(messages), err)
	}
}

// Lag is how far the subscription is behind.
func (c *Client) Lag() subscribe.Lag {
	c.t.Helper()
	lag, err := c.Sub.(subscribe.Lagging).Lag(Context(c.t))
	if err != nil {
		c.t.Fatalf("Lag: %v", err)
	}
	return lag
}

// Fails receives until Receive fails, after at most so many messages, and returns that error.
func (c *Client) Fails(most int) error {
	c.t.Helper()
	ctx := Context(c.t)
	for came := 0; ; {
		messages, err := c.Sub.Receive(ctx, max(1, most-came))
		came += len(messages)
		switch {
		case ctx.Err() != nil:
			c.t.Fatalf("Receive did not fail within %s: %v", Patience, err)
		case err != nil:
			return err
		case came > most:
			c.t.Fatalf("Receive returned %q: want an error after at most %d messages", Texts(messages), most)
		}
	}
}

// Close closes the subscription, unless that was done.
func (c *Client) Close() {
	c.t.Helper()
	if c.closed {
		return
	}
	if err := c.TryClose(); err != nil {
		c.t.Errorf("Close: %v", err)
	}
}

// Texts are the bodies of messages.
func Texts(messages []subscribe.Message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m.Body)
	}
	return strings.Join(all, " ")
}
