package subscribetest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// checkDeadLetter: a dead letter is the message and why it became one.
func checkDeadLetter(s *scene) {
	c := s.open()
	sent := s.messages(4, "a")
	for i := range sent {
		sent[i].Type, sent[i].Headers = "application/json", map[string]string{"tenant": "Zürich"}
	}
	sent[3].Body = []byte("binary \x00\xff\xfe")
	s.publish(sent...)
	got := c.take(4)
	letters(c, got[:1])
	letters(c, got[1:])
	letters := s.topic.ReadLetters(s.t, 4)
	if len(letters) != 4 {
		s.Fatalf("ReadLetters of 4 gave %d", len(letters))
	}
	for i, m := range got {
		at := bodyIn(letters, sent[i].Body)
		if at < 0 {
			s.Fatalf("no dead letter has the body of %s: there are %s", label(m), list(names(letters)))
		}
		want := sent[i]
		want.Headers = maps.Clone(want.Headers)
		maps.Copy(want.Headers, s.why(m).Headers())
		s.sameAs(letters[at], want)
	}
	c.ack(got...)
	c.expectRest(nil, "a")
}

// letters publishes dead letters at the same time.
func letters(c *client, messages []subscribe.Message) {
	c.Helper()
	whys := make([]subscribe.Why, len(messages))
	for i, m := range messages {
		whys[i] = c.owners.why(m)
	}
	errs := make([]error, len(messages))
	c.bounded("DeadLetter", patience, func(ctx context.Context) {
		var all sync.WaitGroup
		for i, m := range messages {
			all.Go(func() { errs[i] = c.sub.DeadLetter(ctx, c.topic.Letters, m, whys[i]) })
		}
		all.Wait()
	})
	if err := errors.Join(errs...); err != nil {
		c.Fatalf("DeadLetter to %s: %v", c.topic.Letters, err)
	}
}

// checkDeadLetterNoAck: to publish a dead letter acknowledges nothing.
func checkDeadLetterNoAck(s *scene) {
	c := s.open()
	sent := s.send(3, "a")
	letters(c, c.take(3)[:2])
	s.topic.ReadLetters(s.t, 2)
	c = c.again()
	c.expectRest(sent, "a")
}

// checkLag: the lag counts what was published and is not acknowledged, and falls to 0.
func checkLag(s *scene) {
	c := s.open()
	lagBecomes(c, 0)
	s.send(6, "a")
	lagBecomes(c, 6)
	got := c.take(6)
	lagBecomes(c, 6) // what is in flight counts
	c.ack(got[:2]...)
	lagBecomes(c, 4)
	c.ack(got[2:]...)
	lagBecomes(c, 0)
}

// lagBecomes asks for the lag until it is so many messages. Brokers may take a moment to count.
func lagBecomes(c *client, want int64) {
	c.Helper()
	sub, ok := c.sub.(subscribe.Lagging)
	if !ok {
		c.Fatalf("the subscription is no subscribe.Lagging, and the topic's NoLag is not set")
	}
	for began := time.Now(); ; {
		var lag subscribe.Lag
		var err error
		c.bounded("Lag", patience, func(ctx context.Context) { lag, err = sub.Lag(ctx) })
		switch {
		case err != nil:
			c.Fatalf("Lag: %v", err)
		case lag.Messages != want && time.Since(began) < patience:
		case lag.Messages != want:
			c.Fatalf("Lag is %d messages after %s, want %d", lag.Messages, patience, want)
		case want == 0 && lag.Seconds > 0 || lag.Seconds > 2*patience.Seconds():
			c.Fatalf("Lag of %d messages is %g s, which are %s old at most", want, lag.Seconds, time.Since(began))
		default:
			return
		}
		time.Sleep(moment / 10)
	}
}

// checkOpenBlocked: Open returns with its context, and its error names the topic.
func checkOpenBlocked(s *scene) {
	source := s.topic.Source(s.t)
	s.topic.Block(s.t)
	_, err := s.tryOpen(source, time.Second)
	s.topic.Unblock(s.t)
	switch {
	case err == nil:
		s.Fatalf("Open while the broker is blocked returned no error: it must return when messages can be received")
	case !strings.Contains(err.Error(), source.Topic()):
		s.Fatalf("Open while the broker is blocked: the error does not name the topic %q: %v", source.Topic(), err)
	}
	c := s.openSoon(source)
	s.send(1, "a")
	c.ack(c.take(1)...)
}

// checkCallsBlocked: every call returns with its context.
func checkCallsBlocked(s *scene) {
	c := s.open()
	s.send(3, "a")
	got := c.take(3)
	s.topic.Block(s.t)
	if _, err := c.tryReceive(1, moment); err == nil {
		s.Fatalf("Receive while the broker is blocked returned a message that was not published")
	}
	if err := c.tryAck(moment, got[0]); err == nil && !s.topic.Forgets && !s.topic.AcksInStore {
		s.Fatalf("Ack while the broker is blocked returned no error: nothing can have confirmed it")
	}
	var err error
	why := s.why(got[1])
	s.bounded("DeadLetter", moment, func(ctx context.Context) {
		err = c.sub.DeadLetter(ctx, s.topic.Letters, got[1], why)
	})
	if err == nil {
		s.Fatalf("DeadLetter while the broker is blocked returned no error: nothing can have confirmed it")
	}
	if sub, ok := c.sub.(subscribe.Lagging); ok {
		s.bounded("Lag", moment, func(ctx context.Context) { _, _ = sub.Lag(ctx) })
	}
	s.bounded("Close", moment, func(ctx context.Context) { _ = c.sub.Close(ctx) })
	c.closed = true
	s.topic.Unblock(s.t)
}

// checkCloseBlocked: Close returns within seconds while the broker is blocked, and nothing is lost by that.
func checkCloseBlocked(s *scene) {
	c := s.open()
	sent := s.send(4, "a")
	c.ack(c.take(3)[0])
	s.topic.Block(s.t)
	began := time.Now()
	if err := c.tryClose(2 * time.Second); err != nil {
		s.Logf("Close while the broker is blocked: %v", err)
	}
	s.Logf("Close took %s", time.Since(began))
	s.topic.Unblock(s.t)
	s.openSoon(c.source).expectRest(sent[1:], "a")
}
