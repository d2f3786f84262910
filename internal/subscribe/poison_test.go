package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
	"github.com/shardctl/shardctl/pkg/elect"
)

func TestPoisonBecomesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return errors.New("never")
			}
			return nil
		}}
		l := newLine(4)
		start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 3, DeadLetter: "dead"}})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		want := "m0" + strings.Repeat(" m1", 3) + " m2 m3" // it is tried three times
		if got := strings.Join(w.order(), " "); l.count() != 4 || got != want {
			t.Errorf("%d acknowledged, delivered %s", l.count(), got)
		}
		if got := strings.Join(l.letters, " "); got != "dead:m1:3" {
			t.Errorf("dead letters %s", got)
		}
	})
}

// A message that its receiver will never take is a dead letter after one attempt. Without dead letters it is tried as
// often as others.
func TestRejectedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return subscribe.Rejected(errors.New("never"))
			}
			return nil
		}}
		l := newLine(4)
		start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 8, DeadLetter: "dead"}})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(w.order(), " "); l.count() != 4 || got != "m0 m1 m2 m3" {
			t.Errorf("%d acknowledged, delivered %s", l.count(), got)
		}
		if got := strings.Join(l.letters, " "); got != "dead:m1:1" {
			t.Errorf("dead letters %s", got)
		}
		l = newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 3}})
		if end := <-x.done; !errors.Is(end.Err, subscribe.ErrStop) ||
			!strings.Contains(end.Err.Error(), "in 3 attempts") {
			t.Errorf("ended with %+v", end)
		}
	})
}

// A message that fails for ever, in one of three partitions, delays what its order has wait for it, and nothing else.
func TestPoisonDelaysWhatItsOrderSays(t *testing.T) {
	for _, c := range []struct {
		order    string
		inFlight int
		want     int // messages worked on of the partition with the poison, of 20 of two keys
	}{
		{subscribe.OrderPartition, 1, 0},
		{subscribe.OrderPartition, 8, 0},
		{subscribe.OrderKey, 8, 4},
		{"", 8, 4},
		{subscribe.OrderNone, 8, 7},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.order, c.inFlight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memsource.New()
				b.Create("orders", 3)
				var mu sync.Mutex
				poison := ""
				done := map[string]int{} // by partition
				w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					if poison == "" {
						poison = d.Partition
					}
					if d.Partition == poison && strings.HasSuffix(d.ID, "/0") {
						return errors.New("never")
					}
					done[d.Partition]++
					return nil
				}}
				start(t, subscribe.Runner{Source: fromOrders(b), Sink: w, InFlight: c.inFlight, Order: c.order})
				publishKeys(t, b)
				time.Sleep(time.Minute)
				synctest.Wait()
				total := 0
				for _, n := range done {
					total += n
				}
				if others := total - done[poison]; done[poison] != c.want || others != 40 {
					t.Errorf("%d of the poison's partition were worked on, and %d of others: want %d and 40",
						done[poison], others,
						c.want)
				}
			})
		})
	}
}

// publishKeys publishes 20 messages to each of three partitions, of two keys in turn.
func publishKeys(t *testing.T, b *memsource.Broker) {
	t.Helper()
	keys := map[string][]string{} // of partitions
	for n := 0; len(keys) < 3 || len(keys["0"]) < 2 || len(keys["1"]) < 2 || len(keys["2"]) < 2; n++ {
		key := fmt.Sprint("k", n)
		p := b.PartitionOf("orders", []byte(key))
		keys[p] = append(keys[p], key)
	}
	for _, of := range keys {
		for i := range 20 {
			if err := b.Publish("orders", subscribe.Message{Key: []byte(of[i%2])}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A receiver that asks to wait is not asked before, nor is it waited for longer than retry.backoff.max.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		700 * time.Millisecond: 700 * time.Millisecond, time.Hour: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			w := &worker{work: func(context.Context, subscribe.Delivery) error {
				if at = append(at, time.Now()); len(at) == 1 {
					return subscribe.RetryAfter(errors.New("not now"), asked)
				}
				return nil
			}}
			start(t, subscribe.Runner{Source: newLine(1), Sink: w})
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(at) != 2 || at[1].Sub(at[0]) != want {
				t.Errorf("asked to wait %s: delivered at %v, want again after %s", asked, at, want)
			}
		})
	}
}

func TestPoisonWithoutDeadLettersStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return errors.New("never")
			}
			return nil
		}}
		l := newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 2}})
		end := <-x.done
		if !end.Final || !end.ByItself || !errors.Is(end.Err, subscribe.ErrStop) ||
			!strings.Contains(end.Err.Error(), "delivery of m1 failed in 2 attempts") {
			t.Errorf("ended with %+v", end)
		}
		if l.count() != 1 {
			t.Errorf("%d acknowledged, want the one before it", l.count())
		}
	})
}

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

// A broker takes no header of any length, and none that is half a character.
func TestErrorOfADeadLetterIsClipped(t *testing.T) {
	for name, test := range map[string]struct{ is, want string }{
		"short":     {"no such customer", "no such customer"},
		"all of it": {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"long":      {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "…"},
		"wide":      {"x" + strings.Repeat("ä", 600), "x" + strings.Repeat("ä", 510) + "…"},
		"wider":     {strings.Repeat("€", 400), strings.Repeat("€", 340) + "…"},
		"no text":   {"a\xffb", "a\uFFFDb"},
	} {
		got := subscribe.Why{Err: errors.New(test.is)}.Headers()["Shardctl-Dead-Error"]
		if got != test.want || len(got) > 1024 || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes %q, want %q", name, len(got), got, test.want)
		}
	}
}
