package subscribetest

import (
	"context"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

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
	sent := s.messages(1, "a")
	s.publish(sent...)
	c.ack(c.take(1)...)
}

// checkCallsBlocked: every call returns with its context.
func checkCallsBlocked(s *scene) {
	c := s.open()
	s.publish(s.messages(3, "a")...)
	got := c.take(3)
	s.topic.Block(s.t)
	if _, err := c.tryReceive(1, moment); err == nil {
		s.Fatalf("Receive while the broker is blocked returned a message that nobody published")
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
	sent := s.messages(4, "a")
	s.publish(sent...)
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
