package subscribe_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// counting is a source that counts its acknowledgements.
type counting struct {
	*line

	acks int
	last time.Time // of the last of them
}

func (c *counting) Open(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error) {
	_, err := c.line.Open(ctx, s)
	return c, err
}

func (c *counting) Ack(ctx context.Context, messages []subscribe.Message) error {
	err := c.line.Ack(ctx, messages)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks++
	c.last = time.Now()
	return err
}

// TestAcknowledgementsGather has two keys with a message each millisecond. Acknowledgements gather for five
// milliseconds where nothing waits for them, and only there.
func TestAcknowledgementsGather(t *testing.T) {
	for _, test := range []struct {
		inFlight, least, most int
		takes                 time.Duration
	}{
		{inFlight: 1, least: 200, most: 200, takes: 200 * time.Millisecond},
		{inFlight: 2, least: 100, most: 200, takes: 100 * time.Millisecond},
		{inFlight: 1000, least: 20, most: 22, takes: 100 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("inFlight=%d", test.inFlight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{work: func(context.Context, subscribe.Delivery) error {
					time.Sleep(time.Millisecond)
					return nil
				}}
				c, began := &counting{line: newLine(200)}, time.Now()
				x := start(t, subscribe.Runner{Source: c, Sink: w, InFlight: test.inFlight})
				time.Sleep(time.Second)
				synctest.Wait()
				c.mu.Lock()
				took := c.last.Sub(began)
				if c.acked != 200 || c.acks < test.least || c.acks > test.most || took != test.takes {
					t.Errorf("%d messages by %d acknowledgements in %v, want from %d to %d in %v", c.acked, c.acks,
						took,
						test.least, test.most, test.takes)
				}
				c.mu.Unlock()
				x.stop(elect.ErrReleased)
				<-x.done
			})
		})
	}
}
