package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/elect"
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

// Attempts go on with the next owner: after a hand-over, and where each owner crashes once it has failed.
func TestAttemptsGoOnWithTheNextOwner(t *testing.T) {
	for name, test := range map[string]struct {
		cause error
		each  int // attempts of an owner
	}{"released": {elect.ErrReleased, 2}, "lost": {elect.ErrLeaseLost, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := orders(t, "good", "poison", "good", "good")
				b.Create("dead", 1)
				failed, got := make(chan int, 100), []int{}
				w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
					if string(d.Body) == "good" {
						return nil
					}
					failed <- d.Attempt
					return errors.New("never")
				}}
				r := subscribe.Runner{
					Source: fromOrders(b), Sink: w, InFlight: 2,
					Retry: subscribe.Retry{Attempts: 5, DeadLetter: "dead"},
				}
				for len(got) < 5 {
					x := start(t, r)
					for range min(test.each, 5-len(got)) {
						got = append(got, <-failed)
					}
					synctest.Wait()
					if x.stop(test.cause); len(got) == 5 {
						break
					}
					<-x.done
				}
				start(t, r)
				time.Sleep(time.Minute)
				synctest.Wait()
				dead := letters(t, b)
				if !slices.Equal(got, []int{1, 2, 3, 4, 5}) || len(failed) > 0 || len(dead) != 1 ||
					dead[0].Headers["Shardctl-Dead-Attempts"] != "5" || b.Acked("orders", "g/n") != 4 {
					t.Errorf("attempts %v, %d more, dead letters %v, %d acknowledged", got, len(failed), dead,
						b.Acked("orders", "g/n"))
				}
			})
		})
	}
}

// A task that has failed for good tries the message as often when it is run again.
func TestAttemptsAfterATaskHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := orders(t, "poison"), 0
		w := &worker{work: func(context.Context, subscribe.Delivery) error {
			calls++
			return errors.New("never")
		}}
		for n := range 3 {
			x := start(t, subscribe.Runner{Source: fromOrders(b), Sink: w, Retry: subscribe.Retry{Attempts: 3}})
			if end := <-x.done; !end.Final || calls != 3*(n+1) {
				t.Errorf("after %d attempts in %d runs it ended with %+v", calls, n+1, end)
			}
		}
	})
}

// keeper is a source that notes when attempts are kept, and refuses that the first time.
type keeper struct {
	*line

	kept []time.Time
	last []subscribe.Message
}

func (k *keeper) Open(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error) {
	_, err := k.line.Open(ctx, s)
	return k, err
}

func (k *keeper) KeepDelivered(_ context.Context, messages []subscribe.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept, k.last = append(k.kept, time.Now()), messages
	if len(k.kept) == 1 {
		return errors.New("not now")
	}
	return nil
}

// TestAttemptsAreKeptInTime: at once, then after 1 s, 2 s and so on up to 30 s, and once more at the end. A few
// messages are kept, those with the most attempts.
func TestAttemptsAreKeptInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m8" {
				return nil
			}
			time.Sleep(time.Millisecond)
			return errors.New("never")
		}}
		k, began := &keeper{line: newLine(100)}, time.Now()
		for i := range k.all {
			k.all[i].Key = nil
		}
		k.all[50].Delivered = 3
		x := start(t, subscribe.Runner{Source: k, Sink: w, InFlight: 100, Retry: subscribe.Retry{Attempts: 1000}})
		time.Sleep(100 * time.Second)
		x.stop(elect.ErrReleased)
		<-x.done
		if k.opened != 1 || len(k.kept) != 9 || k.kept[0].Sub(began) > 100*time.Millisecond ||
			time.Since(k.kept[len(k.kept)-1]) > 100*time.Millisecond {
			t.Errorf("opened %d times, kept %d times, first after %s and last %s before the end", k.opened, len(k.kept),
				k.kept[0].Sub(began), time.Since(k.kept[len(k.kept)-1]))
		}
		for i, m := range k.last {
			if m.Delivered < 1 || i > 0 && m.Delivered > k.last[i-1].Delivered || m.ID == "m8" {
				t.Errorf("message %s was kept with %d attempts", m.ID, m.Delivered)
			}
		}
		if len(k.last) != 16 {
			t.Errorf("%d messages were kept", len(k.last))
		}
	})
}
