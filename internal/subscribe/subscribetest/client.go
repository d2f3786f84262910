package subscribetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks"
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

// owners open subscriptions of one task, each under a larger token than the one before.
type owners struct {
	calls

	traffic *traffic
	id      tasks.Identity
	store   *Store
	token   int64 // of the last Open
	// beginnings is how many lines said that no position was kept, and where the subscription begins.
	beginnings atomic.Int64
}

// sessionLog is the test as the log of a session.
type sessionLog struct {
	testing.TB
	beginnings *atomic.Int64
}

func (l sessionLog) Log(args ...any) {
	line := fmt.Sprint(args...)
	if strings.Contains(line, "No position was kept, beginning") && strings.Contains(line, `"position"="`) {
		l.beginnings.Add(1)
	}
	l.TB.Log(line)
}

// tryOpen opens the source under the next token.
func (o *owners) tryOpen(source subscribe.Source, limit time.Duration) (*client, error) {
	o.Helper()
	o.token++
	c := &client{calls: o.calls, traffic: o.traffic, owners: o, source: source, n: int(o.token)}
	var err error
	o.bounded("Open", limit, func(ctx context.Context) {
		c.sub, err = source.Open(ctx, NewSession(sessionLog{o.traffic.t, &o.beginnings}, o.id, o.token, o.store))
	})
	if err != nil {
		return nil, err
	}
	o.Cleanup(c.end)
	return c, nil
}

// open opens a source whose broker is well.
func (o *owners) open() *client {
	o.Helper()
	c, err := o.tryOpen(o.traffic.topic.Source(o.traffic.t), patience)
	if err != nil {
		o.Fatalf("Open of a topic that exists: %v", err)
	}
	return c
}

// openSoon opens a source after the connection was broken, as runs do: again, until it succeeds.
func (o *owners) openSoon(source subscribe.Source) *client {
	o.Helper()
	for began := time.Now(); ; {
		c, err := o.tryOpen(source, patience)
		if err == nil {
			return c
		}
		if time.Since(began) > patience {
			o.Fatalf("Open still fails %s after the connection was broken, with what connects now working: %v",
				patience, err)
		}
		o.Logf("Open after the connection was broken: %v", err)
		if clock.Sleep(o.Context(), moment) != nil {
			o.Fatalf("the test has ended")
		}
	}
}

// reopen opens the source of a subscription that was closed in order.
func (o *owners) reopen(source subscribe.Source) *client {
	o.Helper()
	c, err := o.tryOpen(source, patience)
	if err != nil {
		o.Fatalf("Open after Close: %v", err)
	}
	return c
}

// openStored opens the source that keeps its position in the checkpoint.
func (o *owners) openStored() *client {
	o.Helper()
	return o.reopen(o.traffic.topic.InStore(o.traffic.t))
}

// why is the reason of dead letters in the checks.
func (o *owners) why(m subscribe.Message) subscribe.Why {
	source := o.traffic.topic.Source(o.traffic.t)
	return subscribe.Why{
		Identity: o.id, Source: source.Kind() + ":" + source.Topic(), ID: m.ID, Attempts: 8,
		Err: errors.New("the receiver answered 500"),
	}
}

const (
	patience = 20 * time.Second // for what should come at once
	soon     = 10 * time.Second // for a return after a context has ended
	moment   = 300 * time.Millisecond
)

// reporter is what checks use of a *testing.T. The suite's own tests put another in its place.
type reporter interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// calls are calls of a source, which must return in time.
type calls struct{ reporter }

// bounded calls f with a context that ends after limit, and fails when f then does not return.
func (c calls) bounded(what string, limit time.Duration, f func(ctx context.Context)) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
	case <-time.After(limit + soon):
		c.Fatalf("%s had not returned %s after its context ended", what, soon)
	}
}

// isContext says whether an error says that a context has ended.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
