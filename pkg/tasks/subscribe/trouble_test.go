package subscribe_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest/memsource"
)

// orders is a broker in memory with messages in the topic orders.
func orders(t *testing.T, bodies ...string) *memsource.Broker {
	t.Helper()
	b := memsource.New()
	b.Create("orders", 1)
	for _, body := range bodies {
		if err := b.Publish("orders", subscribe.Message{Key: []byte("k"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func fromOrders(b *memsource.Broker) memsource.Source {
	return memsource.Source{Broker: b, Name: "orders"}
}

func letters(t *testing.T, b *memsource.Broker) []subscribe.Message {
	t.Helper()
	all, err := b.Messages("dead")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A task that was asked to stop in the middle of its last attempt has not failed: it goes on elsewhere.
func TestStopDuringTheLastAttemptIsNoFailure(t *testing.T) {
	for name, cause := range map[string]error{"released": elect.ErrReleased, "lost": elect.ErrLeaseLost} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // whether the stop or the failure is seen first is chance
				synctest.Test(t, func(t *testing.T) {
					w := &worker{work: func(ctx context.Context, _ subscribe.Delivery) error {
						<-ctx.Done()
						return context.Cause(ctx)
					}}
					x := start(t, subscribe.Runner{
						Source: fromOrders(orders(t, "1")), Sink: w, Retry: subscribe.Retry{Attempts: 1},
					})
					time.Sleep(time.Second)
					x.stop(cause)
					if end := <-x.done; end.Err != nil || end.Final {
						t.Fatalf("ended with %+v, want a run that was cut off", end)
					}
				})
			}
		})
	}
}

// A dead letter says why the message was not worked on, also when it could not be published at once.
func TestDeadLetterKeepsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := orders(t, "1")
		w := &worker{work: func(context.Context, subscribe.Delivery) error { return errors.New("no such customer") }}
		start(t, subscribe.Runner{
			Source: fromOrders(b), Sink: w, Retry: subscribe.Retry{Attempts: 2, DeadLetter: "dead"},
		})
		time.Sleep(5 * time.Second)
		b.Create("dead", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, m := range letters(t, b) {
			if m.Headers["Shardctl-Dead-Error"] == "no such customer" && m.Headers["Shardctl-Dead-Attempts"] == "2" {
				return
			}
			t.Errorf("a dead letter with the headers %q", m.Headers)
		}
		t.Errorf("want one dead letter, acknowledged: %d", b.Acked("orders", "g/n"))
	})
}

// With one message in flight nothing is received meanwhile: only the dead letter itself shows that the connection is
// gone.
func TestDeadLetterOverABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := orders(t, "1", "2")
		b.Create("dead", 1)
		var calls atomic.Int32
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if string(d.Body) != "1" {
				return nil
			}
			if calls.Add(1) == 1 {
				b.Cut()
			}
			return errors.New("no such customer")
		}}
		start(t, subscribe.Runner{
			Source: fromOrders(b), Sink: w, Retry: subscribe.Retry{Attempts: 1, DeadLetter: "dead"},
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, acked := len(letters(t, b)), b.Acked("orders", "g/n"); n != 1 || acked != 2 {
			t.Errorf("%d dead letters, %d acknowledged after an hour, want 1 and 2", n, acked)
		}
	})
}

// A subscription that breaks whenever it is open stays in trouble meanwhile, and not only in the pauses between.
func TestSubscriptionThatKeepsBreakingStaysInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := orders(t)
		x := start(t, subscribe.Runner{Source: fromOrders(b), Sink: &worker{}})
		cut := func(times int) {
			for range times {
				time.Sleep(10 * time.Second) // within it is opened again, and is not open for long
				b.Cut()
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		cut(2)
		if got := x.says.all(); !strings.HasSuffix(got, "<nil>") {
			t.Errorf("after two breaks: said %s", got)
		}
		cut(3)
		said := x.says.all()
		if !strings.Contains(said[strings.LastIndex(said, "<nil>"):], "keeps breaking soon after it is opened: ") {
			t.Errorf("after five breaks: said %s", said)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := x.says.all(); !strings.HasSuffix(got, "<nil>") {
			t.Errorf("a minute later: said %s", got)
		}
		cut(1)
		if got := x.says.all(); !strings.HasSuffix(got, "<nil>") {
			t.Errorf("after one more break: said %s", got)
		}
	})
}
