package subscribetest

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
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
	sent := s.messages(3, "a")
	s.publish(sent...)
	letters(c, c.take(3)[:2])
	s.topic.ReadLetters(s.t, 2)
	c = c.again()
	c.expectRest(sent, "a")
}
