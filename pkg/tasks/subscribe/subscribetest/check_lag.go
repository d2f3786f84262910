package subscribetest

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// checkLag: the lag counts what was published and is not acknowledged, and falls to 0.
func checkLag(s *scene) {
	c := s.open()
	lagBecomes(c, 0)
	s.publish(s.messages(6, "a")...)
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
